// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "allfold/analysis/explore.hpp"
#include "test/message/support/random_program.hpp"

/// @file
/// What a random program may do, and ranks that take their time.

namespace test {

/// What ranks have seen in each execution of a program in which all return, and what was found to be wrong.
struct outcomes {
    std::set<std::vector<std::uint32_t>> seen;
    std::set<allfold::verdict> faults;
    allfold::exploration found;

    /// Whether every rank returns, whatever comes first.
    [[nodiscard]] bool all_end() const {
        return found.complete() && std::ranges::all_of(faults, [](allfold::verdict each) {
                   return each == allfold::verdict::never_received || each == allfold::verdict::different_values;
               });
    }
};

/// Compiled once, and optimised: exploring takes most of the time of those who ask.
[[nodiscard]] outcomes outcomes_of(const random_program& program, allfold::explore_options options);

/// What a transport may do that has room for what is short.
[[nodiscard]] outcomes predicted(const random_program& program);

/// A rank that now and then waits a while, so that in one run or another each of several messages comes first.
class dawdler {
  public:
    explicit dawdler(unsigned seed) : dice_(seed) {}
    void operator()() {
        if (dice_() % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(dice_() % 60));
    }

  private:
    std::minstd_rand dice_;
};

}  // namespace test
