// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "allfold/analysis/explore.hpp"
#include "allfold/transport/hierarchy.hpp"
#include "allfold/transport/thread.hpp"
#include "test/message/support/predicted.hpp"
#include "test/message/support/random_program.hpp"
#include "test/support/catch.hpp"

/// @file
/// The reduced search of explore, checked against an exhaustive one and against real runs, on random programs of
/// messages and collectives.

using allfold::explain;
using allfold::explore_options;
using allfold::verdict;
using test::random_program;

using test::outcomes;
using test::outcomes_of;

namespace {

constexpr std::array kinds{random_program::asks::nothing, random_program::asks::whether_done,
                           random_program::asks::anything};
constexpr auto which_comes = random_program::asks::which_comes;

/// Whether a replay of its schedule leads to the same fault.
bool is_shown_again(const random_program& program, const allfold::finding& one, const explore_options& options) {
    const auto body = [&](allfold::explored_communicator& comm) {
        std::uint32_t seen = 0;
        program.run(comm, seen);
    };
    const allfold::exploration again = allfold::replay(program.size(), body, one.schedule, options);
    return !again.ok() && again.first().what == one.what;
}
/// A fault hides what comes after it in its order, and what needs a send to be held there while another one waits.
std::set<verdict> comparable(std::set<verdict> faults) {
    const auto has_any = [&](auto... these) { return (faults.contains(these) || ...); };
    if (has_any(verdict::failed)) faults.erase(verdict::deadlock_unless_held);
    if (has_any(verdict::failed, verdict::deadlock, verdict::deadlock_unless_held, verdict::never_received))
        faults.erase(verdict::never_completed);
    return faults;
}
bool has_one_held(const allfold::finding& one) {
    return one.what == verdict::deadlock_unless_held &&
           allfold::history_of(one).find("has its send held") != std::string::npos;
}

}  // namespace

TEST_CASE("what explore leaves out has the outcome of what it explores, also with collectives in flight") {
    const std::uint32_t seed = std::random_device()();
    INFO("seed " << seed);
    std::mt19937 dice(seed);
    int compared = 0, of_one_order = 0;
    std::uint64_t executions = 0, without = 0;
    for (int i = 0; i < 400 && compared < 50; ++i) {
        const int size = 2 + i % 2;
        const random_program program(dice, size, 3 + dice() % 3, kinds[static_cast<std::size_t>(i / 2 % 3)]);
        explore_options unreduced, reduced;
        unreduced.reduced = false;
        unreduced.tests = reduced.tests = 20;  // how often a test can find nothing depends on what else arrives
        const outcomes all = outcomes_of(program, unreduced);
        if (!all.found.complete()) continue;
        const outcomes some = outcomes_of(program, reduced);
        ++compared;
        // Two executions: one with sends held, one with sends that wait.
        of_one_order += some.found.executions() <= 2 && all.found.executions() > 2 ? 1 : 0;
        executions += some.found.executions();
        without += all.found.executions();
        INFO("program " << i << ": " << program.text() << explain(some.found)
                        << "without reduction: " << explain(all.found));
        REQUIRE(some.found.complete());
        REQUIRE(some.seen == all.seen);
        REQUIRE(comparable(some.faults) == comparable(all.faults));
    }
    INFO(compared << " programs, " << of_one_order << " of one order, " << executions << " executions, without "
                  << without);
    CHECK((compared == 50 && of_one_order > 8 && executions < without / 4));
}

TEST_CASE("sends that wait unless an order needs them held deadlock if any choice of those that wait does") {
    const std::uint32_t seed = std::random_device()();
    INFO("seed " << seed);
    std::mt19937 dice(seed);
    int compared = 0, faulty = 0, of_both = 0;
    std::uint64_t executions = 0, without = 0;
    for (int i = 0; i < 240 || (of_both == 0 && i < 5000); ++i) {
        const random_program program = i % 4 == 0
                                           ? random_program(dice, 2 + i / 4 % 2, 3 + dice() % 3, kinds[dice() % 3])
                                           : random_program(dice, 3 + i % 2, 4 + dice() % 3, which_comes);
        explore_options as_needed, each;
        each.sends = allfold::standard_sends::each_by_itself;
        each.tests = as_needed.tests = 20;
        const outcomes some = outcomes_of(program, as_needed);
        if (some.faults.contains(verdict::deadlock) || some.faults.contains(verdict::never_received)) continue;
        const outcomes all = outcomes_of(program, each);
        if (!all.found.complete()) continue;
        ++compared;
        faulty += some.faults.contains(verdict::deadlock_unless_held) ? 1 : 0;
        executions += some.found.executions();
        without += all.found.executions();
        INFO("program " << i << ": " << program.text() << explain(some.found)
                        << "each by itself: " << explain(all.found));
        REQUIRE(comparable(some.faults) == comparable(all.faults));
        for (const allfold::finding& one : some.found.findings()) {
            REQUIRE(is_shown_again(program, one, as_needed));
            of_both += has_one_held(one) ? 1 : 0;
        }
    }
    INFO(compared << " programs, " << faulty << " with such a deadlock, " << of_both << " that need one held too, "
                  << executions << " executions, each by itself " << without);
    CHECK((compared > 70 && faulty > 10 && of_both > 0 && executions < without / 4));
}

namespace {

/// Runs each of `programs` random programs a hundred times, on the numbers of ranks in `sizes` in turn, and checks that
/// each run was predicted. `run(size, body)` calls body(comm) on each rank. Returns how many of the programs did not do
/// the same in all runs.
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
        const int processes = size == 3 ? 3 : 2;  // a thread stands in for each
        allfold::run(processes, [&](auto& across) { allfold::run(across, size / processes, body); });
    });
    CHECK(varied > 0);
}
