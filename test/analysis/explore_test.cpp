// SPDX-License-Identifier: BSL-1.0
#include "allfold/analysis/explore.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/operator.hpp"
#include "allfold/analysis/explored_communicator.hpp"
#include "allfold/analysis/here.hpp"
#include "allfold/analysis/without_fault.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/barrier.hpp"
#include "allfold/collective/broadcast.hpp"
#include "allfold/collective/reduce.hpp"
#include "allfold/collective/scatter.hpp"
#include "allfold/collective/subset.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/engine/progress_thread.hpp"
#include "allfold/error.hpp"
#include "allfold/message.hpp"
#include "allfold/schedule/dissemination.hpp"
#include "test/analysis/each_execution.hpp"
#include "test/support/catch.hpp"

#ifdef __GLIBC__
#include <malloc.h>
#endif

/// @file
/// Tests the explorer against a search without reduction, against known numbers of executions, and against programs
/// with one fault each.

using allfold::all_reduce;
using allfold::explain;
using allfold::explore;
using allfold::explored_communicator;
using allfold::here;

using allfold::replay;
using allfold::sum;
using allfold::verdict;

namespace {

/// A whole exploration, which is interrupted and goes on after every so many executions.
template <class Program>
allfold::exploration explored_in_parts(int size, const Program& program, std::uint64_t executions) {
    allfold::explore_options few;
    few.executions = executions;
    allfold::exploration some;
    do {
        some = explore(size, program, few);
        few.frontier = some.frontier();
    } while (!some.complete());
    return some;
}

using vector = std::vector<int>;  // an operand

/// Sends a number to a rank.
void post(explored_communicator& comm, int to, allfold::lane on, std::uint32_t number) {
    std::array<std::byte, 1> nothing{};
    const std::array<allfold::part, 1> parts{{{nothing.data(), 1}}};
    std::atomic<int> lent = 0;
    REQUIRE(comm.try_post(to, on, {parts, 1, 1, true, number, &lent}));
}
/// Waits for the first message from any of these ranks.
struct first_of {
    explored_communicator& comm;
    std::span<const int> ranks;
    allfold::lane on;
    int from = -1;
    std::uint32_t number = 0;

    bool poll() {
        for (const int r : ranks)
            if (from < 0 && comm.try_receive(r, on, [&](auto&& message) { number = message.signature(); })) from = r;
        return from >= 0;
    }
    [[nodiscard]] static allfold::waiting blocked_on() { return {.what = "receive"}; }
    static void check() {}
};
first_of receive(explored_communicator& comm, std::span<const int> ranks, allfold::lane on) {
    first_of next{comm, ranks, on};
    comm.wait(next, std::nullopt);
    return next;
}

/// All other ranks send to rank 0, which takes messages as they arrive, and returns the order of their senders.
vector take_all(explored_communicator& comm) {
    const allfold::lane on = comm.open({}, 1);
    vector senders, order;
    for (int r = 1; r < comm.size(); ++r) senders.push_back(r);
    if (comm.rank() != 0) post(comm, 0, on, 1);
    while (comm.rank() == 0 && order.size() < senders.size()) order.push_back(receive(comm, senders, on).from);
    return order;
}

/// A small random program: sends, receives from whichever of some ranks is first, and tests. What a rank sends, and
/// sometimes to whom, depends on what it has received before.
struct random_program {
    struct action {
        enum class kind : std::uint8_t { send, receive, test } what;
        int peer;
        allfold::lane on;
        vector ranks;
        bool depends;
    };
    std::vector<std::vector<action>> of_rank;

    random_program(std::mt19937& dice, int size, std::size_t steps, bool tests) {
        const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(dice); };
        of_rank.resize(static_cast<std::size_t>(size));
        for (std::size_t i = 0; i < steps; ++i) {  // a send and a receive at a time, so that most programs end
            const std::size_t from = below(of_rank.size());
            const std::size_t to = (from + 1 + below(of_rank.size() - 1)) % of_rank.size();
            const auto on = static_cast<allfold::lane>(below(2));
            of_rank[from].push_back({action::kind::send, static_cast<int>(to), on, {}, below(4) == 0});
            vector ranks{static_cast<int>(from)};
            for (int r = 0; r < size; ++r)
                if (r != static_cast<int>(to) && r != ranks[0] && below(2) == 0) ranks.push_back(r);
            const auto what = tests && below(3) == 0 ? action::kind::test : action::kind::receive;
            of_rank[to].push_back({what, 0, on, ranks, false});
        }
        for (auto& each : of_rank)
            if (each.size() > 1 && below(2) == 0) std::swap(each[below(each.size())], each[below(each.size())]);
    }
    /// `seen` identifies everything that this rank has received, even if it does not return.
    void operator()(explored_communicator& comm, std::uint32_t& seen) const {
        seen = 1000 + static_cast<std::uint32_t>(comm.rank());
        const auto mix = [&](std::uint32_t x) { seen = (seen ^ (x + 0x85ebca6bU)) * 0x9e3779b1U + (seen >> 7); };
        static_cast<void>(comm.open({}, 2));
        for (const action& each : of_rank[static_cast<std::size_t>(comm.rank())]) {
            if (each.what == action::kind::send) {
                const int other = each.depends ? 1 + static_cast<int>(seen % 2) : 0;
                const int to = (each.peer + other) % comm.size();
                if (to != comm.rank()) post(comm, to, each.on, seen);
            } else if (each.what == action::kind::receive) {
                const first_of got = receive(comm, each.ranks, each.on);
                mix(static_cast<std::uint32_t>(got.from) + got.number);
            } else {
                const bool is_there = comm.try_receive(each.ranks[0], each.on, [&](auto&& m) { mix(m.signature()); });
                mix(is_there ? 17 : 18);
            }
        }
    }
};

/// What the ranks have seen in each execution of a program.
std::multiset<vector> outcomes_of(int size, const random_program& program, bool reduced, allfold::exploration& found) {
    std::multiset<vector> all;
    std::vector<std::uint32_t> now(static_cast<std::size_t>(size));
    allfold::explore_options options;
    options.reduced = reduced;
    options.executions = 20000;
    test::after_each_execution(options, [&] { all.emplace(now.begin(), now.end()); });
    found = explore(
        size, [&](explored_communicator& comm) { program(comm, now[static_cast<std::size_t>(comm.rank())]); }, options);
    return all;
}

}  // namespace

TEST_CASE("executions that differ in the order of independent steps are explored once") {
    const auto pairs = [](explored_communicator& comm) {
        const int partner = comm.rank() ^ 1;
        const allfold::lane on = comm.open({}, 1);
        for (int turn = 0; turn < 3; ++turn) {
            post(comm, partner, on, 1);
            static_cast<void>(receive(comm, std::array{partner}, on));
        }
    };
    const auto two = explore(2, pairs), six = explore(6, pairs);
    CHECK((two.ok() && two.complete() && two.executions() == 1 && two.redundant() == 0));
    CHECK((six.ok() && six.complete() && six.executions() == 1 && six.redundant() == 0));
    CHECK(explain(six) == "6 ranks, 1 execution, all there are: no fault found\n");
    const auto chain = explore(4, [](explored_communicator& comm) {  // the first message to rank 0 causes the second
        const allfold::lane on = comm.open({}, 1);
        if (comm.rank() == 1) post(comm, 0, on, 1), post(comm, 3, on, 1);
        if (comm.rank() == 0) static_cast<void>(receive(comm, std::array{1, 2}, on)), post(comm, 2, on, 1);
        if (comm.rank() == 0) static_cast<void>(receive(comm, std::array{1, 2}, on));
        if (comm.rank() == 2) static_cast<void>(receive(comm, std::array{0}, on)), post(comm, 0, on, 1);
        if (comm.rank() == 3) static_cast<void>(receive(comm, std::array{1}, on));
    });
    CHECK((chain.ok() && chain.complete() && chain.executions() == 1 && chain.redundant() == 0));
}

TEST_CASE("n senders to a rank that takes what comes first are n! executions") {
    std::uint64_t expected = 1;
    for (int n = 1; n <= 6; ++n) {
        expected *= static_cast<std::uint64_t>(n);
        const auto found = explore(n + 1, [](explored_communicator& comm) { take_all(comm); });
        INFO(n << " senders: " << explain(found));
        CHECK((found.ok() && found.complete() && found.executions() == expected));
    }
}

TEST_CASE("messages of one rank keep their order, those of different lanes and communicators do not") {
    const auto found = explore(2, [](explored_communicator& comm) {
        const allfold::lane on = comm.open({}, 1);
        vector numbers;
        if (comm.rank() == 0)
            for (std::uint32_t i = 0; i < 4; ++i) post(comm, 1, on, i);
        else
            for (int i = 0; i < 4; ++i) numbers.push_back(static_cast<int>(receive(comm, std::array{0}, on).number));
        return numbers;
    });
    CHECK((found.ok() && found.executions() == 1));
    const auto tested = explore(2, [](explored_communicator& comm) {
        const allfold::lane on = comm.open({}, 1);
        int tests = 0;
        if (comm.rank() == 0) post(comm, 1, on, 1);
        if (comm.rank() == 1)
            while (!comm.try_receive(0, on, [](auto&&) {})) ++tests;
        return tests > 0;
    });
    INFO(explain(tested));
    CHECK((tested.complete() && tested.executions() == 2 && tested.first().what == verdict::different_values));
}

TEST_CASE("who tests in vain while nothing else can happen goes on, each of several first") {
    const auto program = [](explored_communicator& comm) {  // the first rank to give up sends to the other one
        const int partner = 1 - comm.rank();
        const allfold::lane on = comm.open({}, 1);
        int tests = 0;
        while (tests < 3 && !comm.try_receive(partner, on, [](auto&&) {})) ++tests;
        if (tests == 3) post(comm, partner, on, 1);
        return tests;
    };
    allfold::explore_options every;
    every.reduced = false;
    const auto reduced = explore(2, program), all = explore(2, program, every);
    INFO(explain(reduced) << explain(all));
    REQUIRE((reduced.findings().size() == 2 && all.findings().size() == 2));
    for (const std::size_t i : {0U, 1U}) CHECK(reduced.findings()[i].alike == all.findings()[i].alike);
    CHECK(reduced.findings()[1].alike == 2);
}

TEST_CASE("what the reduction leaves out has the outcome of what it explores") {
    const std::uint32_t seed = std::random_device()();
    INFO("seed " << seed);
    std::mt19937 dice(seed);
    std::uint64_t executions = 0, redundant = 0, without = 0;
    int compared = 0;
    for (int i = 0; i < 400; ++i) {
        const int size = 2 + static_cast<int>(dice() % 3);
        const random_program program(dice, size, 3 + dice() % 4, i % 2 == 1);
        allfold::exploration reduced, all;
        const auto some = outcomes_of(size, program, true, reduced);
        const auto every = outcomes_of(size, program, false, all);
        if (!all.complete()) continue;
        ++compared;
        INFO("program " << i << ": " << explain(reduced) << "without reduction: " << explain(all));
        const std::set<vector> these(some.begin(), some.end()), those(every.begin(), every.end());
        REQUIRE((reduced.complete() && these == those));
        if (i % 2 == 0) REQUIRE(some.size() == these.size());  // each outcome once
        REQUIRE(reduced.findings().size() == all.findings().size());
        executions += reduced.executions();
        redundant += reduced.redundant();
        without += all.executions();
    }
    INFO(executions << " executions and " << redundant << " given up, without reduction " << without);
    CHECK((compared > 300 && executions < without / 2));
}

namespace {

/// Checks that a program has this fault, that its description contains `words`, and that its schedule shows it again.
template <class Program>
void check_fault(int size, Program program, verdict what, std::initializer_list<const char*> words) {
    const auto found = explore(size, program);
    INFO(explain(found));
    REQUIRE_FALSE(found.ok());
    CHECK(found.first().what == what);
    for (const char* each : words) {
        INFO(each);
        CHECK(found.first().text.find(each) != std::string::npos);
    }
    const auto again = replay(size, program, found.first().schedule);
    INFO("again: " << explain(again));
    REQUIRE_FALSE(again.ok());
    CHECK((again.first().what == what && again.first().text == found.first().text));
    CHECK(explain(found).find(found.first().schedule) != std::string::npos);
}

}  // namespace

TEST_CASE("a deadlock is found where one order of many leads to it, with what each rank waits for") {
    check_fault(3,
                [](explored_communicator& comm) {  // takes the first message to arrive for that of rank 1
                    const allfold::lane on = comm.open({}, 1);
                    if (comm.rank() != 0) return post(comm, 0, on, 1);
                    static_cast<void>(receive(comm, std::array{1, 2}, on));
                    static_cast<void>(receive(comm, std::array{2}, on));
                },
                verdict::deadlock,
                {"all ranks wait, and nothing is in flight", "rank 0 waits in receive, for a message from rank 2",
                 "rank 1 has returned"});
    check_fault(3,
                [](auto& comm) {
                    if (comm.rank() != 1) allfold::barrier(comm, allfold::dissemination{});
                },
                verdict::deadlock, {"waits in barrier, round 1 of 2, for rank 1, which has returned"});
    check_fault(2,
                [](explored_communicator& comm) {
                    const allfold::lane on = comm.open({}, 1);
                    if (comm.rank() == 0) static_cast<void>(receive(comm, std::array{1}, on));
                    while (comm.rank() == 1 && !comm.try_receive(0, on, [](auto&&) {})) {
                    }
                },
                verdict::no_progress,
                {"rank 0 waits in receive", "rank 1 has tested 1000 times since its latest message"});
}

TEST_CASE("ranks that disagree about a collective, or its order, are named") {
    check_fault(3,
                [](auto& comm) {
                    vector x(comm.rank() == 1 ? 9 : 10, 1);
                    all_reduce(comm, x, sum());
                },
                verdict::disagreement, {"elements: all_reduce (its 1st call)", "rank 1 has 9"});
    check_fault(2,
                [](auto& comm) {
                    vector x{1};
                    if (comm.rank() == 0) allfold::barrier(comm);
                    all_reduce(comm, x, sum());
                    if (comm.rank() == 1) allfold::barrier(comm);
                },
                verdict::disagreement, {"calls barrier", "calls all_reduce"});
    check_fault(2,
                [](auto& comm) {  // two roots that wait for each other, without a message that would show it
                    vector x{1};
                    allfold::broadcast(comm, x, allfold::root{1 - comm.rank()});
                },
                verdict::disagreement, {"names root "});
}

TEST_CASE("ranks that disagree are named even if none of them receives anything") {
    check_fault(2,
                [](auto& comm) {
                    int x = 1;
                    allfold::broadcast(here(comm), x, allfold::root{comm.rank()});
                },
                verdict::disagreement,
                {"rank 0 names root 0, but rank 1 names root 1\n    rank 0: broadcast (its 1st call, explore_test.cpp:",
                 "\n    rank 1: broadcast (its 1st call, explore_test.cpp:"});
    check_fault(3,
                [](auto& comm) {  // rank 2 waits for others than those who disagree
                    int x = 1;
                    if (comm.rank() == 0) allfold::broadcast(comm, x, allfold::root{0});
                    if (comm.rank() == 1) allfold::broadcast(comm, x, allfold::root{1});
                    if (comm.rank() == 2) allfold::receive(comm, x, allfold::from{0});
                },
                verdict::disagreement, {"rank 0 names root 0, but rank 1 names root 1"});
}

TEST_CASE("an exception that leaves a rank is reported with that rank, in any order") {
    check_fault(3,
                [](explored_communicator& comm) {
                    const vector order = take_all(comm);
                    if (comm.rank() == 0 && order[0] == 2) throw std::runtime_error("rank 2 must not come first");
                },
                verdict::failed, {"rank 0: rank 2 must not come first; its latest call: collective (its 1st call)"});
    check_fault(3,
                [](auto& comm) {
                    vector x{1};
                    all_reduce(comm, x, sum());
                    if (comm.rank() == 1) throw 42;
                    allfold::barrier(comm);
                },
                verdict::failed, {"rank 1: it exited with an exception; its latest call: all_reduce (its 1st call)"});
    check_fault(2,
                [](auto& comm) {  // thrown for one operation in flight, while another one is waited for
                    vector x{1}, y(comm.rank() == 0 ? 1 : 2, 1);
                    auto first = all_reduce.start(comm, x, sum());
                    auto second = all_reduce.start(here(comm), y, sum());
                    first.wait();
                    second.wait();
                },
                verdict::disagreement, {"rank 1 has 2 elements: all_reduce (its 2nd call, explore_test.cpp:"});
}

TEST_CASE("what is left at the end is told: messages, and operations in flight") {
    check_fault(3,
                [](explored_communicator& comm) {
                    const allfold::lane on = comm.open({}, 1);
                    if (comm.rank() != 0) return post(comm, 0, on, 1);
                    static_cast<void>(receive(comm, std::array{1, 2}, on));
                },
                verdict::never_received,
                {"a message of 1 byte from rank 2 to rank 0 is never received: collective (its 1st call)"});
    check_fault(2,
                [kept = std::vector<allfold::operation>()](auto& comm) mutable {
                    static vector x{1, 1};
                    if (kept.size() >= 2) kept.clear();
                    kept.push_back(all_reduce.start(comm, x, sum()));
                },
                verdict::never_completed,
                {"its communicator ended before it was done: rank 0 waits for rank 1: all_reduce (its 1st call)"});
}

TEST_CASE("a communicator that is kept beyond its execution is reported, and may end at any time") {
    static std::vector<allfold::team<explored_communicator>> kept;
    static vector x{1, 1};
    static std::vector<allfold::operation> in_flight;
    check_fault(
        2,
        [](explored_communicator& comm) {
            if (comm.rank() == 0) in_flight.clear(), kept.clear();  // of the previous execution
            auto team = allfold::subset(comm, {0, 1});
            allfold::barrier(*team);
            if (comm.rank() != 0) return;
            in_flight.push_back(all_reduce.start(*team, x, sum()));
            kept.push_back(std::move(team));
        },
        verdict::never_freed,
        {"rank 0 has returned but still holds a communicator of 2 ranks, with 1 operation in flight, created before "
         "its 1st call"});
    // After the exploration:
    CHECK_THROWS_WITH(in_flight.back().wait(), Catch::Contains("its communicator ended before it was done"));
    CHECK_THROWS_WITH(allfold::barrier(*kept.back()), Catch::Contains("used after its execution has ended"));
    kept.clear();
    in_flight.clear();
}

TEST_CASE("a result that depends on the order of arrival is shown beside the first one") {
    check_fault(3, [](explored_communicator& comm) { return take_all(comm); }, verdict::different_values,
                {"rank 0 returns {2, 1}, but {1, 2} in the first execution\n    both executions agree up to this call "
                 "of rank 0: collective (its 1st call)"});
}

TEST_CASE("faults that differ only in numbers of calls, or in values, are one, and the shortest is first") {
    const auto program = [](explored_communicator& comm) {
        int x = 0, ahead = 0;
        for (int i = 0; comm.rank() != 0 && i < 4; ++i) allfold::send(comm, comm.rank(), allfold::to{0});
        for (int i = 0; comm.rank() == 0 && i < 8; ++i) {
            allfold::receive(comm, x, allfold::from{allfold::any});
            ahead += x == 2 ? 1 : 0;
            if (ahead == 3 && i < 5) throw std::runtime_error("rank 2 is ahead");
        }
    };
    const auto found = explore(3, program);
    INFO(explain(found));
    REQUIRE(found.findings().size() == 1);
    CHECK((found.first().schedule == "3:111" && found.first().alike == 3 && found.left_out() == 0));
    CHECK(found.first().text.find("its 3rd call") != std::string::npos);
    const auto late_or_early = [](explored_communicator& comm) {
        const vector order = take_all(comm);
        if (comm.rank() == 0 && order[0] == 1 && order[1] == 3) throw std::runtime_error("late");
        if (comm.rank() == 0 && order[0] == 3) throw std::runtime_error("early");
    };
    allfold::explore_options one;
    one.findings = 1;
    const auto both = explore(4, late_or_early), shorter = explore(4, late_or_early, one);
    CHECK((both.findings().size() == 2 && shorter.left_out() == 1));
    for (const auto* each : {&both, &shorter}) CHECK(each->first().text.find("rank 0: early") != std::string::npos);
    const auto orders = explore(5, take_all);
    INFO(explain(orders));
    REQUIRE(orders.findings().size() == 1);
    CHECK((orders.first().alike == 23 && orders.left_out() == 0));
    CHECK(explain(orders).find("the shortest of 23 that differ only in") != std::string::npos);
}

TEST_CASE("a fault that was left out for its length is counted once if it is found again with a shorter schedule") {
    const auto program = [](explored_communicator& comm) {
        int order = 0;
        for (const int r : take_all(comm)) order = order * 10 + r;
        if (comm.rank() == 0) throw std::runtime_error("word " + std::string(1, static_cast<char>('a' + order % 7)));
    };
    allfold::explore_options options;
    const auto all = explore(5, program, options);
    for (options.findings = 1; options.findings < 5; ++options.findings) {
        const auto some = explore(5, program, options);
        CHECK(some.findings().size() == options.findings);
        CHECK(some.findings().size() + some.left_out() == all.findings().size());
    }
}

TEST_CASE("a deadlock is kept, however many shorter ones there are that need sends to wait") {
    const auto program = [](explored_communicator& comm) {
        const vector order = take_all(comm);
        int is_late = comm.rank() == 0 && order[0] == 2 && order[1] == 3 ? 1 : 0, x = 0;
        allfold::broadcast(comm, is_late, allfold::root{0});
        if (comm.rank() > 1) return;
        if (is_late == 0) allfold::send(comm, x, allfold::to{1 - comm.rank()});  // head to head
        allfold::receive(comm, x, allfold::from{1 - comm.rank()});
        if (is_late != 0) allfold::send(comm, x, allfold::to{1 - comm.rank()});
    };
    for (const std::size_t most : {16u, 1u}) {
        allfold::explore_options options;
        options.findings = most;
        const auto found = explore(4, program, options);
        INFO(explain(found));
        REQUIRE((found.findings().size() == 1 && found.left_out() == 0));
        CHECK(found.first().what == verdict::deadlock);
    }
}

TEST_CASE("a program that depends on something else is reported as not deterministic") {
    int calls = 0;
    const auto counted = explore(3, [&](explored_communicator& comm) {
        take_all(comm);
        return ++calls;
    });
    INFO(explain(counted));
    CHECK((counted.first().what == verdict::not_deterministic));
    calls = 0;
    const auto changed = explore(3, [&](explored_communicator& comm) {
        if (++calls <= 3) take_all(comm);
    });
    INFO(explain(changed));
    CHECK((changed.first().what == verdict::not_deterministic &&
           changed.first().text.find("cannot be repeated") != std::string::npos));
}

TEST_CASE("a program is repeated even if it has one execution only, with what it sends and returns") {
    int calls = 0;
    const auto returned = explore(2, [&](explored_communicator& comm) {
        allfold::barrier(comm);
        return ++calls;
    });
    INFO(explain(returned));
    CHECK((returned.executions() == 1 && returned.first().what == verdict::not_deterministic));
    calls = 0;
    const auto sent = explore(2, [&](explored_communicator& comm) {
        vector x(comm.rank() == 0 ? static_cast<std::size_t>(++calls) : 0), room(10);
        if (comm.rank() == 0)
            allfold::send(comm, x, allfold::to{1});
        else
            allfold::receive(comm, room, allfold::from{0});
    });
    INFO(explain(sent));
    REQUIRE(!sent.ok());
    CHECK((sent.executions() == 2 && sent.first().what == verdict::not_deterministic));
}

TEST_CASE("a fault that is not found again is told as such") {
    int executions = 0;
    const auto found = explore(3, [&](explored_communicator& comm) {
        if (comm.rank() == 0) ++executions;
        take_all(comm);
        if (comm.rank() == 0 && executions == 2) throw std::runtime_error("the second time");
    });
    INFO(explain(found));
    REQUIRE(found.findings().size() == 1);
    CHECK(found.first().what == verdict::not_deterministic);
    CHECK(found.first().text.find("found once: a rank fails: rank 0: the second time") != std::string::npos);
}

TEST_CASE("values that differ are told apart, in their last digit or beside a NaN") {
    const auto sums = [](explored_communicator& comm) {
        const vector order = take_all(comm);
        double s = 0.3;
        for (const int r : order) s += r * 0.1;
        return s;
    };
    const std::string text = explain(explore(3, sums));
    INFO(text);
    CHECK(text.find("rank 0 returns 0.59999999999999998, but 0.60000000000000009 in the first") != std::string::npos);

    struct first_and_nan {
        double nan = std::numeric_limits<double>::quiet_NaN();
        int first = 0;
        bool operator==(const first_and_nan&) const = default;
    };
    const auto first = [](explored_communicator& comm) {
        const vector order = take_all(comm);
        first_and_nan seen;
        if (!order.empty()) seen.first = order.front();
        return seen;
    };
#ifdef ALLFOLD_CLEARS_PADDING  // otherwise such values are not told apart
    CHECK(explore(3, first).first().what == verdict::different_values);
#else
    CHECK(explore(3, first).ok());
#endif
    CHECK(explore(3, [](explored_communicator& comm) { return take_all(comm), first_and_nan(); }).ok());
}

TEST_CASE("memory that only the root uses is free for others while an operation is in flight") {
    const auto program = [](explored_communicator& comm) {
        int x = comm.rank() + 1, total = 0, part = 0;
        std::array all{1, 2};
        auto to_first = allfold::reduce.start(comm, x, total, sum{}, allfold::root{0});
        auto to_second = allfold::reduce.start(comm, x, total, sum{}, allfold::root{1});
        auto from_first = allfold::scatter.start(comm, all, part, allfold::root{0});
        if (comm.rank() != 0) all[0] = 7;
        allfold::wait_all(to_first, to_second, from_first);
        return total + part;
    };
    const auto found = explore(2, program);
    INFO(explain(found));
    CHECK(found.ok());
    const auto changes = [](explored_communicator& comm) {
        int x = comm.rank(), total = 0;
        auto op = allfold::reduce.start(comm, x, total, sum{}, allfold::root{0});
        if (comm.rank() == 0) total = 5;
        op.wait();
    };
    CHECK(explain(explore(2, changes)).find("rank 0 changes it before the operation is done") != std::string::npos);
}

TEST_CASE("a program that returns NaN is deterministic") {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    const auto single = [](explored_communicator& comm) { return take_all(comm), nan; };
    const auto several = [](explored_communicator& comm) {
        const vector order = take_all(comm);
        return std::pair(order.empty() ? 0 : order.front(), std::vector{nan, 1.0});
    };
    CHECK(explore(3, single).ok());
    const auto found = explore(3, several);
    INFO(explain(found));
    CHECK((found.findings().size() == 1 && found.first().what == verdict::different_values));
}

namespace {

/// Ranks 0 and 1 send a number to and fro.
void play(explored_communicator& comm, std::size_t turns) {
    for (std::size_t i = 0; i < turns; ++i) {
        int x = 0;
        if (comm.rank() == 0) allfold::send(comm, x, allfold::to{1});
        allfold::receive(comm, x, allfold::from{1 - comm.rank()});
        if (comm.rank() == 1) allfold::send(comm, x, allfold::to{0});
    }
}
void play_for_ever(explored_communicator& comm) { play(comm, ~std::size_t{0}); }

}  // namespace

TEST_CASE("an execution that does not end makes no progress") {
    allfold::explore_options few;
    few.steps = 2000;
    const auto found = explore(2, play_for_ever, few);
    INFO(explain(found));
    REQUIRE(found.findings().size() == 1);
    CHECK((found.first().what == verdict::no_progress && found.first().schedule == "2:" && !found.complete()));
    CHECK_THAT(found.first().text, Catch::Contains("an execution goes on after 2000 steps"));
    CHECK((found.first().history.size() > 100 && found.first().history.size() < 1000));
    const auto send_for_ever = [](explored_communicator& comm) {
        while (comm.rank() == 0) allfold::send(comm, 1, allfold::to{1});
    };
    CHECK(explore(2, send_for_ever, few).first().what == verdict::no_progress);
    CHECK(replay(2, send_for_ever, "2:", few).first().what == verdict::no_progress);
}

TEST_CASE("an exploration ends at its limits within an execution too, and goes on before it") {
    allfold::explore_options options;
    options.steps = ~std::uint64_t{0};
    options.seconds = 0.01;
    const auto late = explore(2, play_for_ever, options);
    CHECK((late.ok() && !late.complete() && late.executions() == 0 && late.frontier().empty()));
    const auto long_game = [](explored_communicator& comm) {
        take_all(comm);
        if (comm.rank() < 2) play(comm, 600);
    };
    int heard = 0;
    options.seconds = 60;
    options.sends = allfold::standard_sends::held;
    const auto whole = explore(3, long_game, options);
    options.watch = [&](const allfold::exploring& so_far) { return so_far.executions == 0 || ++heard < 2; };
    const auto stopped = explore(3, long_game, options);
    INFO(heard << " " << explain(stopped) << explain(whole));
    CHECK((stopped.ok() && !stopped.complete() && stopped.executions() == 1));
    options.watch = {};
    options.frontier = stopped.frontier();
    const auto resumed = explore(3, long_game, options);
    CHECK((resumed.ok() && resumed.complete() && resumed.executions() == whole.executions()));
}

TEST_CASE("a limit that is reached while an execution still repeats the path of the one before is no fault") {
    allfold::explore_options options;
    options.sends = allfold::standard_sends::held;
    options.watch = [heard = 0](const allfold::exploring& so_far) mutable {
        return so_far.executions == 0 || ++heard < 2;
    };
    const auto found = explore(
        3,
        [](explored_communicator& comm) {
            for (int i = 0; i < 600; ++i) take_all(comm);
        },
        options);
    INFO(explain(found));
    CHECK((found.ok() && found.executions() == 1 && !found.frontier().empty()));
}

TEST_CASE("values are compared with those of the first execution in which all ranks return") {
    const auto program = [](explored_communicator& comm) {
        const vector order = take_all(comm);
        if (comm.rank() == 0) allfold::send(comm, order[0], allfold::to{3});
        int first = 0;
        if (comm.rank() == 3) allfold::receive(comm, first, allfold::from{0});
        if (comm.rank() == 0 && order[0] == 1) throw std::runtime_error("rank 1 must not come first");
        return first;
    };
    const auto found = explore(4, program);
    INFO(explain(found));
    REQUIRE((found.complete() && found.findings().size() == 2));
    for (const auto& each : found.findings()) {
        CHECK((each.what == verdict::failed || each.what == verdict::different_values));
        const auto again = replay(4, program, each.schedule);
        CHECK((again.findings().size() == 1 && again.first().what == each.what));
    }
    CHECK(explain(explored_in_parts(4, program, 3)) == explain(found));
}

TEST_CASE("an exploration ends at its limits, and a schedule that is none is refused") {
    const auto program = [](explored_communicator& comm) { take_all(comm); };
    allfold::explore_options few;
    few.executions = 7;
    const auto some = explore(6, program, few);
    CHECK((some.ok() && !some.complete() && some.executions() == 7));
    CHECK(explain(some) == "6 ranks, 7 executions, not all there are: no fault found\n");
    few.watch = [](const allfold::exploring& so_far) { return so_far.executions < 3; };
    CHECK(explore(6, program, few).executions() == 3);
    CHECK_THROWS_AS(explore(0, program), allfold::error);
    CHECK_THROWS_AS(explore(65, program), allfold::error);
    for (const char* schedule : {"", "2:0", "3:?", "3:(", "3:(5", "3:()", "3:(5)", "3:C0.0.", "3:C1.2.C0.1.", "3:C3.1.",
                                 "3:T3.", "3:T65.", "3:T1.T0."})
        CHECK_THROWS_AS(replay(3, program, schedule), allfold::error);
    allfold::explore_options none_kept;
    none_kept.findings = 0;
    const auto deadlock = explore(
        2,
        [](auto& comm) {
            if (comm.rank() == 0) allfold::barrier(comm);
        },
        none_kept);
    CHECK((!deadlock.ok() && deadlock.findings().empty() && deadlock.left_out() == 1));
    CHECK_FALSE(allfold::without_fault().match(deadlock));
    CHECK_THROWS_WITH(deadlock.first(), Catch::Contains("no fault is kept"));
    CHECK(replay(3, program, "3:99").first().what == verdict::not_deterministic);
    CHECK_THROWS_AS(some.first(), allfold::error);
}

TEST_CASE("an exploration that ended at a limit goes on where it was, also from a file") {
    const auto program = [](explored_communicator& comm) { return take_all(comm); };
    const auto whole = explore(5, program);
    allfold::explore_options few;
    few.executions = 5;
    std::size_t parts = 0;
    allfold::exploration some;
    do {
        some = explore(5, program, few);
        ++parts;
        CHECK(some.executions() == (some.complete() ? whole.executions() : 5 * parts));
        const std::string file = "explore_test.frontier";
        std::ofstream(file) << some.frontier();
        std::ostringstream read;
        read << std::ifstream(file).rdbuf();
        few.frontier = read.str();
        std::remove(file.c_str());
        REQUIRE(parts < 10);
    } while (!some.complete());
    CHECK((parts == 5 && some.executions() == 24 && some.redundant() == whole.redundant()));
    CHECK(some.frontier().empty());
    CHECK(explain(some) == explain(whole));
    for (const char* none : {"nothing", "allfold-frontier-7 5 0", "allfold-frontier-6 4 0 1 0 0 0 . 0"}) {
        few.frontier = none;
        CHECK_THROWS_AS(explore(5, program, few), allfold::error);
    }
}

TEST_CASE("a resumed exploration reports the faults that were found before") {
    const auto program = [](explored_communicator& comm) {
        const vector order = take_all(comm);
        if (comm.rank() == 0 && order[0] == 3) throw std::runtime_error("rank 3 must not come first");
    };
    const auto some = explored_in_parts(5, program, 7);
    CHECK_FALSE(some.ok());
    CHECK(explain(some) == explain(explore(5, program)));
}

TEST_CASE("ranks have a stack that allfold itself can run on, however small a one is asked for") {
    allfold::explore_options options;
    options.stack_bytes = 0;
    const auto found = explore(3, [](explored_communicator& comm) { take_all(comm), allfold::barrier(comm); }, options);
    INFO(explain(found));
    CHECK((found.ok() && found.complete()));
}

TEST_CASE("the frontier of another program, or of other options, is refused") {
    const auto program = [](explored_communicator& comm) { take_all(comm); };
    const auto longer = [](explored_communicator& comm) { take_all(comm), allfold::barrier(comm); };
    allfold::explore_options few;
    few.executions = 7;
    few.frontier = explore(5, program, few).frontier();
    CHECK_THROWS_WITH(explore(5, longer, few), Catch::Contains("this frontier is that of another program"));
    few.reduced = false;
    CHECK_THROWS_WITH(explore(5, program, few), Catch::Contains("of an exploration with other options (reduced"));

    const auto pairs = [](explored_communicator& comm, bool in_order) {
        int x = comm.rank(), first = 0;
        for (int i = 0; comm.rank() > 0 && i < 2; ++i) allfold::send(comm, x, allfold::to{0}, allfold::tag{x});
        if (comm.rank() > 0) return;
        allfold::receive(comm, first, allfold::from{allfold::any}, allfold::tag{allfold::any});
        for (int i = 0; i < 3; ++i)
            if (in_order)
                allfold::receive(comm, x, allfold::from{i == 0 ? first : 3 - first}, allfold::tag{allfold::any});
            else
                allfold::receive(comm, x, allfold::from{allfold::any}, allfold::tag{allfold::any});
    };
    allfold::explore_options three;
    three.executions = 3;
    three.frontier = explore(3, [&](explored_communicator& comm) { pairs(comm, false); }, three).frontier();
    CHECK_THROWS_WITH(explore(
                          3, [&](explored_communicator& comm) { pairs(comm, true); }, three),
                      Catch::Contains("this frontier is that of another program"));
}

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
TEST_CASE("memory does not grow with the number of executions") {
    // Under the address sanitizer the allocator reports nothing: then both are 0.
    std::map<std::uint64_t, std::size_t> in_use;
    allfold::explore_options options;
    options.executions = 900;
    options.watch = [&](const allfold::exploring& so_far) {
        if (so_far.executions == 100 || so_far.executions == 800) in_use[so_far.executions] = mallinfo2().uordblks;
        return true;
    };
    const auto found = explore(
        3,
        [](explored_communicator& comm) {
            const allfold::lane on = comm.open({}, 1);
            const vector senders{1, 2};
            for (std::uint32_t i = 0; comm.rank() != 0 && i < 6; ++i) post(comm, 0, on, i + 1);
            for (int i = 0; comm.rank() == 0 && i < 12; ++i) receive(comm, senders, on);
        },
        options);
    REQUIRE(found.executions() > 800);
    constexpr std::size_t slack = 16 << 10;  // some executions are longer than others
    CHECK(in_use[800] < in_use[100] + slack);
}
#endif

TEST_CASE("the watch callback gets the progress of the exploration") {
    allfold::explore_options options;
    std::vector<allfold::exploring> heard;
    options.watch = [&](const allfold::exploring& so_far) {
        heard.push_back(so_far);
        return true;
    };
    const auto found = explore(4, [](explored_communicator& comm) { take_all(comm); }, options);
    REQUIRE(heard.size() == found.executions() + found.redundant());
    CHECK((heard.front().executions == 1 && heard.front().steps == 3 && heard.front().open == 1));
    CHECK((heard.back().executions == 6 && heard.back().open == 0 && heard.back().executions_per_second() > 0));
}

TEST_CASE("a rank that catches for ever what is thrown ends the exploration") {
    const auto found = explore(2, [](explored_communicator& comm) {
        const allfold::lane on = comm.open({}, 1);
        while (comm.rank() == 0) try {
                static_cast<void>(receive(comm, std::array{1}, on));
            } catch (const allfold::error&) {
            }
    });
    INFO(explain(found));
    REQUIRE(found.findings().size() == 2);
    CHECK((found.first().what == verdict::deadlock && !found.complete()));
    CHECK(found.findings()[1].text == "a rank does not return although its calls keep throwing");
}

TEST_CASE("an explored program cannot have a progress thread, and is told so") {
    const auto found = explore(2, [](explored_communicator& comm) {
        allfold::progress_thread helper(comm);
        helper.start([](auto& own) { allfold::barrier(own); }).wait();
    });
    INFO(explain(found));
    REQUIRE(found.findings().size() == 1);
    CHECK(found.first().what == verdict::failed);
    CHECK_THAT(found.first().text, Catch::Matchers::StartsWith("rank 0: explore: an explored program runs on a single "
                                                               "thread, and cannot have a progress_thread"));
}

TEST_CASE("ranks that are explored catch exceptions, and call allfold where they do") {
    const auto found = explore(3, [](auto& comm) {
        vector x{1};
        try {
            throw std::runtime_error("caught");
        } catch (const std::exception& e) {
            all_reduce(comm, x, sum());  // other ranks throw and catch meanwhile
            if (std::string(e.what()) != "caught" || std::uncaught_exceptions() != 0) throw;
        }
        return x;
    });
    INFO(explain(found));
    CHECK(found.ok());
}
