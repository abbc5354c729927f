// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <exception>
#include <string>

#include "allfold/error.hpp"

/// @file
/// Why a rank gives up, for those whom it releases.

namespace allfold::detail {

struct cause {
    errc code = errc::peer_failed;
    std::string why = "an exception";
};

/// Of the exception that is being handled.
[[nodiscard, gnu::cold]] inline cause current_cause() {
    try {
        if (std::current_exception()) throw;
    } catch (const error& e) {
        return {e.code(), e.what()};
    } catch (const std::exception& e) {
        return {errc::peer_failed, e.what()};
    } catch (...) {
    }
    return {};
}

}  // namespace allfold::detail
