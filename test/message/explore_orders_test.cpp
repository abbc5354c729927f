// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/analysis/explore.hpp"
#include "allfold/analysis/explored_communicator.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/message.hpp"
#include "allfold/transport/thread.hpp"
#include "test/message/support/random_program.hpp"
#include "test/support/catch.hpp"

/// @file
/// What explore leaves out, held against a search that leaves out nothing: random programs of messages and collectives.

using allfold::explain;
using allfold::exploration;
using allfold::explore;
using allfold::explore_options;
using allfold::explored_communicator;
using test::random_program;

namespace {

/// What ranks have seen in each execution of a program, and what was found to be wrong.
struct outcomes {
    std::set<std::vector<std::uint32_t>> seen;
    std::set<allfold::verdict> faults;
    exploration found;
};

outcomes outcomes_of(const random_program& program, explore_options options) {
    outcomes all;
    std::vector<std::uint32_t> now(static_cast<std::size_t>(program.size()));
    options.executions = 1000;
    options.watch = [&, ended = std::uint64_t{0}](const allfold::exploring& so_far) mutable {
        if (std::exchange(ended, so_far.executions) != so_far.executions) all.seen.emplace(now.begin(), now.end());
        return true;
    };
    all.found = explore(
        program.size(),
        [&](explored_communicator& comm) { program.run(comm, now[static_cast<std::size_t>(comm.rank())]); }, options);
    for (const allfold::finding& each : all.found.findings()) all.faults.insert(each.what);
    return all;
}

/// Whether every rank returns, whatever comes first.
bool ends(const outcomes& all) {
    return std::ranges::all_of(all.faults, [](allfold::verdict each) {
        return each == allfold::verdict::never_received || each == allfold::verdict::different_values;
    });
}

/// So that ranks begin in other orders.
void wait_a_while(int turn) {
    for (int i = 0; i < turn * 7 % 5; ++i) std::this_thread::yield();
}

}  // namespace

TEST_CASE("what explore leaves out has the outcome of what it explores, also with collectives in flight") {
    const std::uint32_t seed = std::random_device()();
    INFO("seed " << seed);
    std::mt19937 dice(seed);
    int compared = 0, of_one_order = 0;
    std::uint64_t executions = 0, without = 0;
    for (int i = 0; i < 120; ++i) {
        const int size = 2 + i % 2;
        constexpr std::array kinds{random_program::asks::nothing, random_program::asks::whether_done,
                                   random_program::asks::anything};
        const random_program program(dice, size, 3 + dice() % 3, kinds[static_cast<std::size_t>(i / 2 % 3)]);
        explore_options unreduced;
        unreduced.reduced = false;
        const outcomes all = outcomes_of(program, unreduced);
        if (!all.found.complete()) continue;
        const outcomes some = outcomes_of(program, {});
        ++compared;
        of_one_order += some.found.executions() <= 2 && all.found.executions() > 2 ? 1 : 0;  // held, and not
        executions += some.found.executions();
        without += all.found.executions();
        INFO("program " << i << ": " << program.text() << explain(some.found)
                        << "without reduction: " << explain(all.found));
        REQUIRE(some.found.complete());
        REQUIRE(some.seen == all.seen);
        REQUIRE(some.faults == all.faults);
    }
    INFO(compared << " programs, " << of_one_order << " of one order, " << executions << " executions, without "
                  << without);
    CHECK((compared > 50 && of_one_order > 8 && executions < without / 4));
}

TEST_CASE("where nobody asks for an order, sends that all wait deadlock if any choice of those that wait does") {
    const std::uint32_t seed = std::random_device()();
    INFO("seed " << seed);
    std::mt19937 dice(seed);
    int compared = 0, faulty = 0;
    for (int i = 0; i < 60; ++i) {
        const random_program program(dice, 2 + i % 2, 3 + dice() % 2, random_program::asks::nothing);
        explore_options each;
        each.sends = allfold::standard_sends::each_by_itself;
        const outcomes all_or_none = outcomes_of(program, {}), every = outcomes_of(program, each);
        if (!every.found.complete() || all_or_none.faults.contains(allfold::verdict::deadlock) ||
            all_or_none.faults.contains(allfold::verdict::never_received))
            continue;
        ++compared;
        faulty += all_or_none.found.ok() ? 0 : 1;
        INFO("program " << i << ": " << program.text() << explain(all_or_none.found)
                        << "each by itself: " << explain(every.found));
        REQUIRE(all_or_none.faults == every.faults);
    }
    INFO(compared << " programs, " << faulty << " with a fault");
    CHECK((compared > 20 && faulty > 0));
}

TEST_CASE("what threads do is among what explore predicts") {
    const std::uint32_t seed = std::random_device()();
    INFO("seed " << seed);
    std::mt19937 dice(seed);
    int compared = 0, varied = 0;
    for (int i = 0; i < 60 && compared < 12; ++i) {
        const random_program program(dice, 2 + i % 2, 3 + dice() % 3, random_program::asks::anything);
        explore_options held;
        held.sends = allfold::standard_sends::held;
        const outcomes predicted = outcomes_of(program, held);
        if (!predicted.found.complete() || !ends(predicted)) continue;
        ++compared;
        std::set<std::vector<std::uint32_t>> seen;
        for (int turn = 0; turn < 100; ++turn) {
            std::vector<std::uint32_t> now(static_cast<std::size_t>(program.size()));
            allfold::run(program.size(), [&](auto& comm) {
                wait_a_while(turn + comm.rank());
                program.run(comm, now[static_cast<std::size_t>(comm.rank())]);
            });
            seen.insert(now);
        }
        varied += seen.size() > 1 ? 1 : 0;
        INFO("program " << i << ": " << program.text() << explain(predicted.found));
        REQUIRE(std::ranges::includes(predicted.seen, seen));
    }
    INFO(compared << " programs, " << varied << " with more than one outcome");
    CHECK(compared > 5);
}
