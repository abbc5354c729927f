// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>

/// @file
/// How soon a thread continues is up to the machine, and no test may depend on it.

namespace test {

/// Whether `attempt(patience)` succeeds once, with increasing patience: for attempts that only a busy machine makes
/// fail.
template <class Attempt>
[[nodiscard]] bool succeeds_with_patience(Attempt attempt) {
    using namespace std::chrono_literals;
    for (auto patience = 50ms; patience < 10s; patience *= 2)
        if (attempt(patience)) return true;
    return false;
}

/// Whether `attempt()` succeeds at least once in several tries: for attempts that a busy machine makes fail now and
/// then.
template <class Attempt>
[[nodiscard]] bool succeeds_now_and_then(Attempt attempt) {
    for (int turn = 0; turn < 8; ++turn)
        if (attempt()) return true;
    return false;
}

}  // namespace test
