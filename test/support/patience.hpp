// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>

/// @file
/// How soon a thread goes on is for the machine to say, and no test may depend on it.

namespace test {

/// Whether `attempt(patience)` succeeds once, with more and more patience: what only a busy machine prevents.
template <class Attempt>
[[nodiscard]] bool succeeds_with_patience(Attempt attempt) {
    using namespace std::chrono_literals;
    for (auto patience = 50ms; patience < 10s; patience *= 2)
        if (attempt(patience)) return true;
    return false;
}

/// Whether `attempt()` succeeds once of several times: what a busy machine prevents now and then.
template <class Attempt>
[[nodiscard]] bool succeeds_now_and_then(Attempt attempt) {
    for (int turn = 0; turn < 8; ++turn)
        if (attempt()) return true;
    return false;
}

}  // namespace test
