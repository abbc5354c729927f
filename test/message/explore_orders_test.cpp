// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "allfold/analysis/explore.hpp"
#include "allfold/transport/hierarchy.hpp"
#include "allfold/transport/thread.hpp"
#include "test/message/support/predicted.hpp"
#include "test/message/support/random_program.hpp"
#include "test/support/catch.hpp"

/// @file
/// What explore leaves out, held against a search that leaves out nothing: random programs of messages and collectives.

using allfold::explain;
using allfold::explore_options;
using test::random_program;

using test::outcomes;
using test::outcomes_of;

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
        explore_options unreduced, reduced;
        unreduced.reduced = false;
        unreduced.tests = reduced.tests = 20;  // how often a test is in vain depends on what else comes
        const outcomes all = outcomes_of(program, unreduced);
        if (!all.found.complete()) continue;
        const outcomes some = outcomes_of(program, reduced);
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
    for (int i = 0; i < 60 || (faulty == 0 && i < 600); ++i) {
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

namespace {

/// A hundred runs of each of so many random programs, of these numbers of ranks by turns; `run(size, body)` calls
/// body(comm) on each rank. How many of them did not always do the same.
template <class Run>
int hold_against_prediction(int programs, const std::vector<int>& sizes, Run run) {
    const std::uint32_t seed = std::random_device()();
    INFO("seed " << seed);
    std::mt19937 dice(seed);
    int compared = 0, varied = 0;
    for (std::size_t i = 0; i < 400 && compared < programs; ++i) {
        const int size = sizes[i % sizes.size()];
        const random_program program =
            i == 0 ? random_program(size) : random_program(dice, size, 3 + dice() % 3, random_program::asks::anything);
        const outcomes predicted = test::predicted(program);
        if (i > 0 && (!predicted.all_end() || predicted.seen.size() < 2)) continue;
        ++compared;
        std::set<std::vector<std::uint32_t>> seen;
        for (unsigned turn = 0; turn < 100; ++turn) {
            std::vector<std::uint32_t> now(static_cast<std::size_t>(size));
            run(size, [&](auto& comm) {
                const auto rank = static_cast<unsigned>(comm.rank());
                program.run(comm, now[rank], test::dawdler(turn * 100 + rank));
            });
            seen.insert(now);
        }
        varied += seen.size() > 1 ? 1 : 0;
        INFO("program " << i << ": " << program.text() << explain(predicted.found));
        REQUIRE(std::ranges::includes(predicted.seen, seen));
    }
    CHECK(compared == programs);
    return varied;
}

}  // namespace

TEST_CASE("what threads do is among what explore predicts, and not always the same") {
    const int varied = hold_against_prediction(20, {3, 2}, [](int size, auto body) { allfold::run(size, body); });
    CHECK(varied > 4);
}

TEST_CASE("what threads of several processes do is among what explore predicts, and not always the same") {
    const int varied = hold_against_prediction(4, {4, 2, 3}, [](int size, auto body) {
        const int processes = size == 3 ? 3 : 2;  // each is a thread here
        allfold::run(processes, [&](auto& across) { allfold::run(across, size / processes, body); });
    });
    CHECK(varied > 0);
}
