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
#include "allfold/analysis/explored_communicator.hpp"
#include "test/analysis/each_execution.hpp"
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

[[nodiscard]] inline outcomes outcomes_of(const random_program& program, allfold::explore_options options) {
    outcomes all;
    std::vector<std::uint32_t> now(static_cast<std::size_t>(program.size()));
    std::vector<bool> have_returned(now.size());
    options.executions = 1000;
    after_each_execution(options, [&] {
        if (std::ranges::find(have_returned, false) == have_returned.end()) all.seen.insert(now);
    });
    all.found = allfold::explore(
        program.size(),
        [&](allfold::explored_communicator& comm) {
            const auto rank = static_cast<std::size_t>(comm.rank());
            have_returned[rank] = false;
            program.run(comm, now[rank]);
            have_returned[rank] = true;
        },
        options);
    for (const allfold::finding& each : all.found.findings()) all.faults.insert(each.what);
    return all;
}

/// What a transport may do that has room for what is short.
[[nodiscard]] inline outcomes predicted(const random_program& program) {
    allfold::explore_options options;
    options.sends = program.may_wait() ? allfold::standard_sends::each_by_itself : allfold::standard_sends::held;
    options.tests = 20;  // as often in vain as it may happen
    return outcomes_of(program, options);
}

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
