// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/analysis/explore.hpp"
#include "allfold/analysis/explored_communicator.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/barrier.hpp"
#include "allfold/collective/subset.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/error.hpp"
#include "allfold/message.hpp"
#include "allfold/schedule/ring.hpp"
#include "test/analysis/each_execution.hpp"
#include "test/support/catch.hpp"

/// @file
/// Deadlines pass, or do not pass.

using allfold::deadline;
using allfold::explain;
using allfold::exploration;
using allfold::explore;
using allfold::explore_options;
using allfold::explored_communicator;
using allfold::sum;
using allfold::verdict;

namespace {

constexpr deadline soon{std::chrono::seconds(0)}, late{std::chrono::hours(1)}, never{std::chrono::hours(1'000'000)};

explore_options only_in_vain() {
    explore_options options;
    options.deadlines = allfold::deadlines::in_vain;
    return options;
}

/// How far a rank gets before a deadline passes.
template <class... Steps>
std::string progress_of(Steps... steps) {
    return test::progress_of(allfold::errc::timeout, steps...);
}

using all_outcomes = std::set<std::vector<std::string>>;

/// What all ranks return in each execution, and which faults are found.
struct explored {
    all_outcomes seen;
    std::set<verdict> faults;
    exploration found;
};
template <class Program>
explored explored_program(int size, Program program, explore_options options) {
    explored all;
    std::vector<std::string> now(static_cast<std::size_t>(size));
    test::after_each_execution(options, [&] { all.seen.insert(now); });
    all.found = explore(
        size,
        [&](explored_communicator& comm) {
            std::string& mine = now[static_cast<std::size_t>(comm.rank())];
            mine = "?";
            mine = program(comm);
        },
        options);
    for (const allfold::finding& each : all.found.findings()) all.faults.insert(each.what);
    return all;
}
template <class Program>
all_outcomes outcomes(int size, Program program, const explore_options& limits = {}) {
    const explored all = explored_program(size, program, limits);
    INFO(explain(all.found));
    CHECK((all.found.ok() && all.found.complete()));
    return all.seen;
}

}  // namespace

TEST_CASE("each rank is in time, or too late, or hears that another one was") {
    const auto program = [](explored_communicator& comm) { return progress_of([&] { allfold::barrier(comm, soon); }); };
    CHECK(outcomes(2, program) == all_outcomes{{"+", "+"}, {"+", "!"}, {"!", "+"}, {"!", "!"}});
    CHECK(outcomes(2, program, only_in_vain()) == all_outcomes{{"+", "+"}});
    CHECK(outcomes(3, program).size() == 8);
}

namespace {

/// How many executions there are if the deadline of rank 0 may pass, and if the deadlines of both ranks may.
template <class Call>
std::array<std::uint64_t, 2> executions_of_two(Call call) {
    const auto count = [&](const deadline& second) {
        const exploration found = explore(2, [&](explored_communicator& comm) {
            progress_of([&] { call(comm, comm.rank() == 0 ? soon : second); });
        });
        CHECK((found.ok() && found.complete()));
        return found.executions();
    };
    return {count(never), count(soon)};
}

}  // namespace

TEST_CASE("a deadline passes before each round of a collective, or in none") {
    using counts = std::array<std::uint64_t, 2>;
    // One round: a rank sends, and then its deadline passes, or it learns that the other rank's has, or it gets the
    // message. If only the deadline of rank 0 may pass: two executions in which it does, and one in which it does not.
    // If both may: two more in which that of rank 1 passes, and one in which both do.
    CHECK(executions_of_two([](auto& comm, const deadline& limit) { allfold::barrier(comm, limit); }) == counts{3, 6});
    // Two rounds, where a rank sends in the second one once it has the message of the first. Its deadline passes at
    // once (A); it learns of the other's in the first round (B); it gets the message, and then its deadline passes (C),
    // or it learns of the other's in the second round (D); or it completes (E). E requires that the other rank has got
    // the first message: it is in C, D or E. B and D require that the other's deadline passes: A or C. A requires that
    // the other is not in E. So A goes with A to D, B with A and C, C with all, D with A and C, E with C and E: 15. If
    // only the deadline of rank 0 may pass: A with B and D, C with B, D and E, E with E.
    const auto ring = [](auto& comm, const deadline& limit) {
        std::array x{1, 2};
        allfold::all_reduce(comm, x, sum(), allfold::ring(), limit);
    };
    CHECK(executions_of_two(ring) == counts{6, 15});
}

TEST_CASE("a deadline may pass in the midst of a message, which its sender knows to be received") {
    const auto program = [](explored_communicator& comm) {
        std::vector<int> x(1 << 16);
        if (comm.rank() == 0) return progress_of([&] { allfold::receive(comm, x, allfold::from{1}, soon); });
        return progress_of([&] { allfold::send(comm, x, allfold::to{0}, allfold::mode::synchronous); });
    };
    CHECK(outcomes(2, program) == all_outcomes{{"+", "+"}, {"!", "+"}, {"!", "!"}});
}

TEST_CASE("a deadline may pass in a message that has come before its receive where it could") {
    const auto program = [](auto mode) {
        return [mode](explored_communicator& comm) {
            int x = 0, y = 0;
            if (comm.rank() == 0)
                return progress_of([&] { allfold::receive(comm, x, allfold::from{1}); },
                                   [&] { allfold::send(comm, y, allfold::to{1}); });
            return progress_of([&] { allfold::send(comm, x, allfold::to{0}, mode); },
                               [&] { allfold::receive(comm, y, allfold::from{0}, soon); });
        };
    };
    for (const auto mode : {allfold::mode::standard, allfold::mode::synchronous}) {
        const all_outcomes all = outcomes(2, program(mode));
        CHECK(all.contains({"++", "++"}));
        CHECK(all.contains({"++", "+!"}));
    }
}

TEST_CASE("a deadline passes before or after what else its rank hears of") {
    const auto first_rank = [](auto call) {
        std::set<std::string> all;
        for (const auto& each : outcomes(2, [&](explored_communicator& comm) {
                 std::string seen;
                 return progress_of([&] { call(comm, comm.rank() == 0 ? soon : never, seen); }).insert(0, seen);
             }))
            all.insert(each[0]);
        return all;
    };
    using texts = std::set<std::string>;
    CHECK(first_rank([](auto& comm, const deadline& limit, std::string& seen) {  // a test
              int x = 1;
              auto sums = allfold::all_reduce.start(comm, x, sum(), limit);
              seen += sums.done() ? 'd' : '.';
              sums.wait();
          }) == texts{"!", ".!", ".+", "d+"});
    CHECK(first_rank([](auto& comm, const deadline& limit, std::string& seen) {  // the end of another operation
              int x = 1, y = 1;
              std::array both{allfold::all_reduce.start(comm, x, sum()),
                              allfold::all_reduce.start(comm, y, sum(), limit)};
              seen += static_cast<char>('a' + wait_any(both));
              wait_all(both);
          }) == texts{"!", "a!", "a+", "b+"});
    CHECK(first_rank([](auto& comm, const deadline& limit, std::string& seen) {  // a message
              int x = 1, y = 1;
              auto sums = allfold::all_reduce.start(comm, x, sum(), limit);
              if (comm.rank() == 1) allfold::send(comm, y, allfold::to{0});
              if (comm.rank() == 0) allfold::receive(comm, y, allfold::from{1});
              seen += 'r';
              sums.wait();
          }) == texts{"!", "r!", "r+"});
}

TEST_CASE("a deadline passes before or after each call that returns meanwhile") {
    explore_options held, unreduced;  // a waiting send would get an answer that rank 0 posts: more to tell apart
    held.sends = unreduced.sends = allfold::standard_sends::held;
    unreduced.reduced = false;
    const auto beside_a_sum = [](int calls, auto call) {
        return [calls, call](explored_communicator& comm) {
            int x = 1;
            std::string seen;
            auto sums = allfold::all_reduce.start(comm, x, sum(), comm.rank() == 0 ? soon : never);
            for (int i = 0; i < calls; ++i) seen += progress_of([&] { call(comm); });
            return seen += progress_of([&] { sums.wait(); });
        };
    };
    const auto receives = beside_a_sum(2, [](explored_communicator& comm) {
        int y = 1;
        comm.rank() == 1 ? allfold::send(comm, y, allfold::to{0}) : void(allfold::receive(comm, y, allfold::from{1}));
    });
    // The deadline of rank 0 passes in one of its three calls, or in none.
    std::set<std::string> first;
    for (const auto& each : outcomes(2, receives, held)) first.insert(each[0]);
    CHECK(first == std::set<std::string>{"!!!", "+!!", "++!", "+++"});
    CHECK(outcomes(2, receives, held) == outcomes(2, receives, unreduced));
    const auto barriers = beside_a_sum(1, [](explored_communicator& comm) { allfold::barrier(comm); });
    CHECK(outcomes(2, barriers, held) == outcomes(2, barriers, unreduced));
    // The awaited message has arrived, and the other receive's deadline passes before the call returns: then the next
    // call, which does not wait, reports it.
    const auto waits_for_one = [](explored_communicator& comm) {
        std::array x{1, 1, 1};
        allfold::operation sums;
        if (comm.rank() == 1)
            for (int i = 0; i < 2; ++i) allfold::send(comm, x[0], allfold::to{0});
        const auto start = [&] { sums = allfold::all_reduce.start(comm, x[2], sum()); };
        if (comm.rank() == 1) return progress_of(start, [&] { sums.wait(); });
        std::array both{allfold::receive.start(comm, x[0], allfold::from{1}, soon),
                        allfold::receive.start(comm, x[1], allfold::from{1}, soon)};
        return progress_of([&] { both[0].wait(); }, start, [&] { both[1].wait(); }, [&] { sums.wait(); });
    };
    CHECK(outcomes(2, waits_for_one, held) == outcomes(2, waits_for_one, unreduced));
}

TEST_CASE("how long a deadline is makes no difference, and where none is given none passes") {
    for (const deadline& each : {soon, late}) {
        const auto program = [&](explored_communicator& comm) {
            if (comm.rank() != 0) return progress_of([&] { allfold::barrier(comm); }, [&] { allfold::barrier(comm); });
            return progress_of([&] { allfold::barrier(comm); }, [&] { allfold::barrier(comm, each); });
        };
        CHECK(outcomes(2, program) == all_outcomes{{"++", "++"}, {"+!", "++"}, {"+!", "+!"}, {"+!", "!"}});
    }
}

TEST_CASE("operations in flight and messages have deadlines too") {
    const auto in_flight = [](explored_communicator& comm) {
        int x = 1;
        return progress_of([&] { allfold::all_reduce.start(comm, x, sum(), soon).wait(); },
                           [&] {
                               if (x != comm.size()) throw 42;
                           });
    };
    CHECK(outcomes(2, in_flight).size() == 4);
    const auto receives = [](explored_communicator& comm) {
        int x = 1;
        if (comm.rank() == 1) return progress_of([&] { allfold::send(comm, x, allfold::to{0}); });
        return progress_of([&] { allfold::receive(comm, x, allfold::from{1}, soon); });
    };
    CHECK(outcomes(2, receives) == all_outcomes{{"+", "+"}, {"!", "+"}, {"!", "!"}});
    explore_options unreduced;
    unreduced.reduced = false;
    CHECK(outcomes(2, receives, unreduced) == outcomes(2, receives));
    CHECK(outcomes(2, in_flight, unreduced) == outcomes(2, in_flight));
}

TEST_CASE("of an operation that is over no deadline is known, however it ended") {
    std::size_t most = 0;
    const exploration found = explore(2, [&](explored_communicator& comm) {
        std::array x{1, 1, 1};
        const auto require_none = [&] {
            if (comm.deadlines_ahead() != 0) throw std::runtime_error("an operation is over, and its deadline is not");
        };
        progress_of([&] {
            std::array sums{allfold::all_reduce.start(comm, x[0], sum(), late),
                            allfold::all_reduce.start(comm, x[1], sum(), never)};
            most = std::max(most, comm.deadlines_ahead());
            wait_all(sums);
            require_none();
            auto unwanted = allfold::receive.start(comm, x[2], allfold::from{1 - comm.rank()}, allfold::tag{1}, late);
            if (unwanted.cancel()) require_none();
            auto again = allfold::all_reduce.prepare(comm, x[0], sum(), late);
            for (int i = 0; i < 2; ++i) {
                again.start();
                again.wait();
                require_none();
            }
        });
        require_none();  // after a timeout, too
    });
    INFO(explain(found));
    CHECK((found.ok() && found.complete() && most == 1));
}

TEST_CASE("a deadline error that nobody catches is reported, and replayed") {
    const auto program = [](explored_communicator& comm) {
        if (comm.rank() != 1) allfold::barrier(comm, late);
    };
    const exploration found = explore(3, program, only_in_vain());
    INFO(explain(found));
    REQUIRE(!found.ok());
    CHECK(found.first().what == verdict::timed_out);
    CHECK_THAT(found.first().text, Catch::Matchers::ContainsSubstring(
                                       "barrier: the deadline of rank 0 has passed: barrier (its 1st call)"));
    CHECK_THAT(allfold::history_of(found.first()),
               Catch::Matchers::ContainsSubstring("rank 0 misses its deadline") &&
                   Catch::Matchers::ContainsSubstring("rank 2 learns that another rank's deadline has passed"));
    const exploration again = allfold::replay(3, program, found.first().schedule, only_in_vain());
    REQUIRE(!again.ok());
    CHECK(again.first().text == found.first().text);
}

TEST_CASE("what follows a deadline that passes only where sends wait is searched like all else") {
    // After that, each rank tests a send; if it has ended, the rank waits for something that nobody sends.
    const auto program = [](explored_communicator& comm) {
        int x = 1, y = 0;
        const int other = 1 - comm.rank();
        auto team = allfold::subset(comm, allfold::rank_list::strided(0, 2));
        try {
            allfold::send(*team, x, allfold::to{other}, late);
            allfold::receive(*team, y, allfold::from{other}, late);
        } catch (const allfold::error& e) {
            if (e.code() != allfold::errc::timeout) throw;
            allfold::operation sent = allfold::send.start(comm, x, allfold::to{other});
            const bool is_done = sent.done();
            allfold::receive(comm, y, allfold::from{other});
            sent.wait();
            if (is_done) allfold::receive(comm, y, allfold::from{other}, allfold::tag{9});
        }
    };
    for (const bool reduced : {true, false}) {
        explore_options options = only_in_vain();
        options.reduced = reduced;
        exploration found = explore(2, program, options);
        INFO(explain(found));
        REQUIRE(!found.ok());
        CHECK((found.complete() && found.first().what == verdict::deadlock_unless_held));
        const std::size_t executions = found.executions();
        options.executions = 7;
        for (int turn = 0; !(found = explore(2, program, options)).complete() && turn < 1000; ++turn)
            options.frontier = found.frontier();
        CHECK(found.executions() == executions);
    }
}

TEST_CASE("a deadline that may pass does not make a rank one that tests its sends") {
    const exploration found = explore(2, [](explored_communicator& comm) {
        int x = 1, y = 0;
        for (int i = 0; i < 2; ++i) {
            allfold::operation sent = allfold::send.start(comm, x, allfold::to{1 - comm.rank()});
            allfold::receive(comm, y, allfold::from{1 - comm.rank()}, late);
            sent.wait();
        }
    });
    INFO(explain(found));
    CHECK(found.executions() == 88);
    REQUIRE(!found.ok());
    CHECK(found.first().schedule.find('T') == std::string::npos);
}

namespace {

/// Random calls of two ranks, some with deadlines. What a rank learns is recorded in the text that it returns.
struct random_calls {
    struct call {
        unsigned what;
        std::array<bool, 2> has_deadline;
    };
    std::vector<call> calls;

    explicit random_calls(std::mt19937& dice) : calls(1 + dice() % 2) {
        for (call& each : calls) each = {static_cast<unsigned>(dice() % 7), {dice() % 2 == 0, dice() % 3 == 0}};
    }
    std::string operator()(explored_communicator& comm) const {
        std::string seen;
        for (const call& each : calls) {
            const deadline& limit = each.has_deadline[comm.rank() == 0 ? 0 : 1] ? soon : never;
            seen += progress_of([&] { make(each.what, comm, limit, seen); });
            if (seen.back() == '!') break;
        }
        return seen;
    }
    static void make(unsigned what, explored_communicator& comm, const deadline& limit, std::string& seen) {
        const int other = 1 - comm.rank();
        std::array x{1, 2}, y{0, 0};
        switch (what) {
            case 0: return allfold::barrier(comm, limit);
            case 1: return void(allfold::all_reduce(comm, x, sum(), allfold::ring(), limit));
            case 2: return void(allfold::exchange(comm, x, allfold::to{other}, y, allfold::from{other}, limit));
            case 3:
                if (comm.rank() == 0) return void(allfold::receive(comm, x, allfold::from{1}, limit));
                return allfold::send(comm, x, allfold::to{0}, allfold::mode::synchronous, limit);
            case 4: {
                auto sums = allfold::all_reduce.start(comm, x, sum(), limit);
                seen += sums.done() ? 'd' : '.';
                return sums.wait();
            }
            case 5: {  // one of them with a deadline, and either may end first
                std::array both{allfold::all_reduce.start(comm, x, sum()),
                                allfold::all_reduce.start(comm, y, sum(), comm.rank() == 0 ? limit : never)};
                seen += static_cast<char>('a' + wait_any(both));
                return wait_all(both);
            }
            default: {  // another communicator makes progress meanwhile
                const auto beside = allfold::subset(comm, allfold::rank_list{0, 1});
                auto sums = allfold::all_reduce.start(*beside, x, sum());
                if (comm.rank() == 0) sums.then([&] { seen += 't'; });
                seen += progress_of([&] { allfold::barrier(comm, limit); });
                sums.wait();
            }
        }
    }
};

}  // namespace

TEST_CASE(
    "what is left out of deadlines has the outcome of what is explored: other orders, and times that nobody can tell") {
    explore_options unreduced;
    unreduced.reduced = false;
    unreduced.executions = 500;
    const std::uint32_t seed = std::random_device()();
    INFO("seed " << seed);
    std::mt19937 dice(seed);
    constexpr int programs = 8;  // of which all executions are few
    int compared = 0;
    for (int i = 0; i < 400 && compared < programs; ++i) {
        const random_calls program(dice);
        std::string text;
        for (const auto& each : program.calls)
            text +=
                std::to_string(each.what) + (each.has_deadline[0] ? "+" : "-") + (each.has_deadline[1] ? "+ " : "- ");
        INFO("program " << i << ": " << text);
        const explored all = explored_program(2, program, unreduced);
        if (!all.found.complete()) continue;
        const explored some = explored_program(2, program, {});
        ++compared;
        INFO(explain(some.found) << "all: " << explain(all.found));
        REQUIRE((some.found.complete() && some.seen == all.seen && some.faults == all.faults));
    }
    CHECK(compared == programs);
    const auto one_of_three = [](explored_communicator& comm) {
        return progress_of([&] { allfold::barrier(comm, comm.rank() == 1 ? soon : never); });
    };
    unreduced.executions = 20000;
    CHECK(outcomes(3, one_of_three) == outcomes(3, one_of_three, unreduced));
}
