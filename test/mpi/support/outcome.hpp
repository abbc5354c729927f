// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <initializer_list>
#include <mpi.h>
#include <optional>
#include <string>
#include <string_view>

#include "allfold/error.hpp"
#include "test/support/catch.hpp"

/// @file
/// How the part of this process in a test ended, and whether that fits to the others.

namespace test {

struct outcome {
    std::optional<allfold::errc> code;  ///< of an allfold::error
    std::string text;                   ///< of any exception; empty where there was none

    [[nodiscard]] bool says(std::string_view part) const { return text.find(part) != std::string::npos; }
};

template <class Fn>
[[nodiscard]] outcome outcome_of(Fn fn) {
    try {
        fn();
    } catch (const allfold::error& e) {
        return {e.code(), e.what()};
    } catch (const std::exception& e) {
        return {std::nullopt, e.what()};
    }
    return {};
}

[[nodiscard]] inline bool on_any_rank(bool mine) {
    int here = mine ? 1 : 0, somewhere = 0;
    MPI_Allreduce(&here, &somewhere, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return somewhere != 0;
}

/// Some rank must have failed with `code` and a text that has all of `parts`, and every rank with it, or because of it.
inline void check_failure(const outcome& mine, allfold::errc code, std::initializer_list<std::string_view> parts) {
    INFO(mine.text);
    bool is_cause = mine.code == code;
    for (const auto part : parts) is_cause = is_cause && mine.says(part);
    CHECK(on_any_rank(is_cause));
    CHECK((mine.code == code || mine.code == allfold::errc::peer_failed));
}

}  // namespace test
