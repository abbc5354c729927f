// SPDX-License-Identifier: BSL-1.0
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/analysis/explore.hpp"
#include "allfold/analysis/explored_communicator.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/barrier.hpp"
#include "allfold/collective/subset.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/message.hpp"
#include "allfold/transport/rank_list.hpp"
#include "test/analysis/each_execution.hpp"
#include "test/support/catch.hpp"

/// @file
/// Which races the reduction finds, one small program each: a race that is overlooked costs an execution, and one that
/// does not exist adds an execution that is abandoned.
///
/// In the first execution, the lowest rank that can take its message does so, unless another rank waits for nothing
/// else. So a rank that is to be later has a higher number, and asks for messages that never arrive.

using allfold::any;
using allfold::explain;
using allfold::exploration;
using allfold::explore;
using allfold::explored_communicator;
using allfold::from;
using allfold::receive;
using allfold::send;
using allfold::tag;
using allfold::to;

namespace {

allfold::explore_options held() {
    allfold::explore_options options;
    options.sends = allfold::standard_sends::held;
    return options;
}

/// Checks the number of executions, that there is no fault (unless `is_clean` is false), and that a search without
/// reduction finds as many faults.
template <class Program>
void check_count(int size, std::uint64_t expected, Program program, allfold::explore_options options = held(),
                 bool is_clean = true) {
    const exploration found = explore(size, program, options);
    options.reduced = false;
    const exploration all = explore(size, program, options);
    INFO(explain(found) << found.redundant() << " given up; without reduction " << explain(all));
    CHECK((found.complete() && found.executions() == expected && found.redundant() == 0));
    CHECK((all.complete() && found.ok() == is_clean && all.ok() == is_clean));
    CHECK(found.findings().size() == all.findings().size());
}

/// Receives one message, the first one from any rank.
void take(explored_communicator& comm) {
    int x = 0;
    receive(comm, x, from{any});
}
void tell(explored_communicator& comm, int rank) { send(comm, comm.rank(), to{rank}); }

/// Messages at the level of the transport, where a rank can ask for those from some ranks only.
void post(explored_communicator& comm, int rank) {
    std::array<std::byte, 1> nothing{};
    const std::array<allfold::part, 1> parts{{{nothing.data(), 1}}};
    std::atomic<int> lent = 0;
    REQUIRE(comm.try_post(rank, 0, {parts, 1, 1, true, 1, &lent}));
}
struct first_of {
    explored_communicator& comm;
    std::span<const int> ranks;
    int from = -1;

    bool poll() {
        for (const int r : ranks)
            if (from < 0 && comm.try_receive(r, 0, [](auto&&) {})) from = r;
        return from >= 0;
    }
    [[nodiscard]] static allfold::waiting blocked_on() { return {.what = "take"}; }
    static void check() {}
};
template <std::size_t Count>
int take_first(explored_communicator& comm, const std::array<int, Count>& ranks) {
    first_of next{comm, ranks};
    comm.wait(next, std::nullopt);
    return next.from;
}

}  // namespace

TEST_CASE("a message is not tried in place of the one that it is due to") {
    // Rank 0 takes a message from rank 3, and then one from rank 2, which could go on because of rank 0's own message.
    // Meanwhile rank 1 takes one too, but that is no reason to try what rank 0 does after what rank 1 does.
    const auto program = [](bool takes_both) {
        return [takes_both](explored_communicator& comm) {
            switch (comm.rank()) {
                case 0:
                    take(comm), tell(comm, 2);
                    if (takes_both) take(comm);
                    break;
                case 1: take(comm); break;
                case 2: take(comm), tell(comm, 0); break;
                default: tell(comm, 0), tell(comm, 1);
            }
        };
    };
    check_count(4, 1, program(true));
    check_count(4, 1, program(false), held(), false);  // nor if no rank takes it
}

TEST_CASE("a message is tried first though what leads to it comes later than the one that is taken now") {
    // Rank 0 takes messages from 1 and 2, and 2 sends its own after it has taken those from 3 and 4: 2 orders each.
    check_count(5, 4, [](explored_communicator& comm) {
        switch (comm.rank()) {
            case 0: take(comm), take(comm); break;
            case 1: tell(comm, 0); break;
            case 2: take(comm), take(comm), tell(comm, 0); break;
            default: tell(comm, 2);
        }
    });
    // Each of three messages is first once. That includes the one from rank 3, which is sent only after a message from
    // rank 4 has arrived, although another message that may be first as well arrives between it and the first one.
    check_count(6, 3, [](explored_communicator& comm) {
        static_cast<void>(comm.open({}, 1));
        switch (comm.rank()) {
            case 0: {
                const int first = take_first(comm, std::array{1, 2, 3});
                for (int r = 1; r <= 3; ++r)
                    if (r != first) take_first(comm, std::array{r});
                break;
            }
            case 3: take_first(comm, std::array{4, 5}), post(comm, 0); break;
            case 4: post(comm, 3); break;
            case 5: break;
            default: post(comm, 0);
        }
    });
}

TEST_CASE("an answer that nobody sees may come before a message that is seen, and is not tried before its own cause") {
    const auto hand = [](explored_communicator& comm, int rank) {
        send(comm, comm.rank(), to{rank}, allfold::mode::synchronous);
    };
    // The send of rank 0 ends before or after rank 0 gets the message from rank 1.
    check_count(3, 2, [hand](explored_communicator& comm) {
        int x = 0;
        if (comm.rank() == 1) hand(comm, 0);
        if (comm.rank() == 2) take(comm);
        if (comm.rank() != 0) return;
        auto receives = receive.start(comm, x, from{1});
        hand(comm, 2);
        static_cast<void>(receives.done());
        receives.wait();
    });
    // Rank 4 answers rank 0 only after rank 1 has got on, which waits for rank 0 to receive: one of the two orders
    // above remains.
    const auto due = [hand](explored_communicator& comm) {
        int x = 0;
        switch (comm.rank()) {
            case 0: {
                auto receives = receive.start(comm, x, from{1});
                hand(comm, 4);
                static_cast<void>(receives.done());
                receives.wait();
                break;
            }
            case 1: {
                auto sends = send.start(comm, x, to{2}, allfold::mode::synchronous);
                hand(comm, 0), hand(comm, 3);
                sends.wait();
                break;
            }
            case 2: take(comm); break;
            case 3: take(comm), hand(comm, 4); break;
            default: receive(comm, x, from{3}), receive(comm, x, from{0});
        }
    };
    const exploration found = explore(5, due);
    INFO(explain(found) << found.redundant() << " given up");
    CHECK((found.ok() && found.complete() && found.executions() == 1 && found.redundant() == 0));
}

TEST_CASE("a message may come before an answer that nobody sees, behind which its rank has a choice") {
    // Rank 1 gets an answer, and then starts a send that it may cancel in time or not. Its second receive may have been
    // matched before that, so rank 0, which answers after it has looked, finds one of its sends done, or both.
    std::array<int, 2> now{};
    const auto program = [&now](explored_communicator& comm) {
        int x = 0, y = 0;
        if (comm.rank() == 0) {
            std::array both{send.start(comm, x, to{1}), send.start(comm, y, to{1}, allfold::mode::synchronous)};
            now[0] = static_cast<int>(allfold::wait_some(both).size());
            receive(comm, x, from{1});
            for (allfold::operation& each : both) each.wait();
        } else {
            receive(comm, x, from{0});
            auto second = receive.start(comm, y, from{0});
            send(comm, x, to{0}, allfold::mode::synchronous);
            auto sent = send.start(comm, x, to{0});
            now[1] = sent.cancel() ? 1 : 0;
            second.wait();
            sent.wait();
        }
    };
    for (const bool is_reduced : {true, false}) {
        std::set<std::array<int, 2>> outcomes;
        allfold::explore_options options = held();
        options.reduced = is_reduced;
        test::after_each_execution(options, [&] { outcomes.insert(now); });
        const exploration found = explore(2, program, options);
        INFO(explain(found));
        CHECK(found.complete());
        CHECK(outcomes == std::set<std::array<int, 2>>{{1, 0}, {1, 1}, {2, 0}, {2, 1}});
    }
}

TEST_CASE("a message that is put back comes before or after the next one has come") {
    // The receive in flight takes the next message if that has arrived by then, and otherwise the one that is put back.
    const auto program = [](explored_communicator& comm) {
        int x = 0, y = 0;
        if (comm.rank() == 1) {
            send(comm, 1, to{0});
            send(comm, 2, to{0});
            return 0;
        }
        allfold::message first = allfold::probe(comm, from{1});
        auto second = receive.start(comm, x, from{1});
        first = allfold::message();
        second.wait();
        receive(comm, y, from{1});
        return 10 * x + y;
    };
    for (const bool is_reduced : {true, false}) {
        allfold::explore_options options = held();
        options.reduced = is_reduced;
        const exploration found = explore(2, program, options);
        INFO(explain(found));
        REQUIRE(found.findings().size() == 1);
        const std::string told = explain(found);
        CHECK((told.find("returns 21, but 12") != std::string::npos ||
               told.find("returns 12, but 21") != std::string::npos));
    }
}

TEST_CASE("a function at the end of an operation may wait in the midst of another wait") {
    const auto program = [](explored_communicator& comm) {
        int x = 0, y = 0;
        if (comm.rank() == 0) {
            send(comm, x, to{1});
            send(comm, x, to{1}, tag{1});
            return allfold::barrier(comm);
        }
        auto first = receive.start(comm, x, from{0});
        first.then([&] { receive(comm, y, from{0}, tag{1}); });
        allfold::barrier(comm);
        first.wait();
    };
    for (const bool is_reduced : {true, false}) {
        allfold::explore_options options;
        options.reduced = is_reduced;
        const exploration found = explore(2, program, options);
        INFO(explain(found));
        CHECK((found.complete() && found.ok()));
    }
}

TEST_CASE("a send that is let go of may not have been received before its communicator ends") {
    const auto program = [](explored_communicator& comm) {
        const int x = 0;
        int y = 0;
        if (comm.rank() == 0) {
            send.start(comm, x, to{1}).release();
            send(comm, x, to{1}, tag{1}, allfold::mode::synchronous);
        } else {
            receive(comm, y, from{0}, tag{1});
            receive(comm, y, from{0});
        }
    };
    const exploration found = explore(2, program);
    INFO(explain(found));
    REQUIRE(found.findings().size() == 1);
    CHECK(explain(found).find("operation never completed: rank 0") != std::string::npos);
}

TEST_CASE("a wait for any finds a message or the end of a collective, also if they are of two communicators") {
    const auto program = [](explored_communicator& comm) {
        const auto team = allfold::subset(comm, allfold::rank_list{0, 1});
        int y = 1;
        std::size_t first = 0;
        if (comm.rank() == 0) {
            std::array<allfold::operation, 2> both{allfold::barrier.start(*team), receive.start(comm, y, from{1})};
            first = allfold::wait_any(both);
            allfold::wait_all(both);
        } else {
            auto barrier = allfold::barrier.start(*team);
            send(comm, y, to{0});
            barrier.wait();
        }
        return first;
    };
    check_count(2, 2, program, held(), false);
}

TEST_CASE("a receive from any rank may match a message from before, or one that its rank sends to itself") {
    const auto program = [](explored_communicator& comm) {
        int first = 0, second = 0, own = 100, y = comm.rank();
        if (comm.rank() == 1) {
            send(comm, 1, to{0});
            allfold::all_reduce(comm, y, allfold::sum());
            return 0;
        }
        auto any_one = receive.start(comm, first, from{any});
        allfold::all_reduce(comm, y, allfold::sum());  // rank 1 has sent by now
        auto to_itself = send.start(comm, own, to{0});
        any_one.wait();
        receive(comm, second, from{any});
        to_itself.wait();
        return first;
    };
    const exploration found = explore(2, program, held());
    INFO(explain(found));
    REQUIRE(found.findings().size() == 1);
    CHECK((found.complete() && found.first().what == allfold::verdict::different_values));
}
