// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <exception>
#include <string>

#include "allfold/error.hpp"

/// @file
/// Why a rank has failed.

namespace allfold::detail {

struct cause {
    errc code = errc::peer_failed;
    std::string why = "it exited with an exception";
    bool is_known = true;            // false while the exception is still in flight and cannot be inspected
    std::exception_ptr thrown = {};  // null if there is none, or it is not known
};

/// In a handler, the exception being handled. Otherwise a destructor is calling this while an exception unwinds the
/// stack; that exception can be inspected only once it is caught.
[[nodiscard]] inline cause current_cause() noexcept {
    cause found;
    found.thrown = std::current_exception();
    found.is_known = found.thrown != nullptr;
    if (!found.is_known) return found;
    try {
        throw;
    } catch (const error& e) {
        found.why = e.what();
        found.code = e.code();
    } catch (const std::exception& e) {
        found.why = e.what();
    } catch (...) {
    }
    return found;
}

/// Whether an exception is one of ours.
[[nodiscard]] inline bool is_error(const std::exception_ptr& thrown) noexcept {
    try {
        if (thrown) std::rethrow_exception(thrown);
    } catch (const error&) {
        return true;
    } catch (...) {
    }
    return false;
}

/// Whether it is one of ours that only reports the failure of another rank.
[[nodiscard]] inline bool is_peer_failure(const std::exception_ptr& thrown) noexcept {
    try {
        if (thrown) std::rethrow_exception(thrown);
    } catch (const error& e) {
        return e.code() == errc::peer_failed;
    } catch (...) {
    }
    return false;
}

}  // namespace allfold::detail
