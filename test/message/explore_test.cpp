// SPDX-License-Identifier: BSL-1.0
#include "allfold/analysis/explore.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/analysis/draw_finding.hpp"
#include "allfold/analysis/explored_communicator.hpp"
#include "allfold/analysis/here.hpp"
#include "allfold/analysis/without_fault.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/barrier.hpp"
#include "allfold/collective/subset.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/error.hpp"
#include "allfold/message.hpp"
#include "allfold/transport/rank_list.hpp"
#include "test/analysis/each_execution.hpp"
#include "test/support/catch.hpp"

/// @file
/// Programs that send messages, explored in every order of arrival.

using allfold::explain;
using allfold::exploration;
using allfold::explore;
using allfold::explored_communicator;
using allfold::from;
using allfold::here;
using allfold::tag;
using allfold::to;
using allfold::verdict;

namespace {

int factorial(int n) { return n < 2 ? 1 : n * factorial(n - 1); }

/// No send waits for its receive.
allfold::explore_options held() {
    allfold::explore_options options;
    options.sends = allfold::standard_sends::held;
    return options;
}

/// Every other rank sends its number to rank 0, `each` times; `take` combines what rank 0 receives.
template <class Take>
int take_all(explored_communicator& comm, int each, Take take) {
    int result = 0;
    for (int i = 0; i < each; ++i)
        if (comm.rank() != 0) allfold::send(comm, comm.rank(), to{0});
    for (int i = 0; comm.rank() == 0 && i < each * (comm.size() - 1); ++i) {
        int x = 0;
        allfold::receive(comm, x, from{allfold::any});
        result = take(result, x);
    }
    return result;
}
int add(int all, int x) { return all + x; }
int append(int all, int x) { return 10 * all + x; }

}  // namespace

TEST_CASE("messages from n ranks to one that takes any arrive in n! orders") {
    for (int senders = 1; senders <= 5; ++senders) {
        const exploration found =
            explore(senders + 1, [](explored_communicator& comm) { return take_all(comm, 1, add); }, held());
        INFO(explain(found));
        CHECK((found.ok() && found.complete()));
        CHECK(found.executions() == static_cast<std::size_t>(factorial(senders)));
        if (senders > 4) continue;
        const exploration both =
            explore(senders + 1, [](explored_communicator& comm) { return take_all(comm, 1, add); });
        INFO(explain(both));
        CHECK((both.ok() && both.complete()));  // and once more with every send waiting
        CHECK(both.executions() == 2 * static_cast<std::size_t>(factorial(senders)));
    }
    const exploration twice = explore(3, [](explored_communicator& comm) { return take_all(comm, 2, add); }, held());
    INFO(explain(twice));
    CHECK((twice.ok() && twice.executions() == 6));  // two from each rank: 4! / (2! 2!)
}

TEST_CASE("messages whose sources are named arrive in one order") {
    const auto program = [](explored_communicator& comm) {
        std::vector<int> got;
        if (comm.rank() != 0) allfold::send(comm, comm.rank(), to{0});
        for (int r = 1; comm.rank() == 0 && r < comm.size(); ++r) {
            int x = 0;
            allfold::receive(comm, x, from{r});
            got.push_back(x);
        }
        return got;
    };
    const exploration found = explore(4, program, held()), both = explore(4, program);
    INFO(explain(found) << explain(both));
    CHECK((found.ok() && found.complete() && found.executions() == 1));
    CHECK((both.ok() && both.complete() && both.executions() == 2));  // and one in which sends wait
}

TEST_CASE("a result that depends on the order of arrival is shown") {
    const auto program = [](explored_communicator& comm) { return take_all(comm, 1, append); };
    const exploration found = explore(3, program);
    INFO(explain(found));
    REQUIRE(!found.ok());
    CHECK(found.first().what == verdict::different_values);
    CHECK_THAT(found.first().text,
               Catch::Matchers::EndsWith("agree up to this call of rank 0: receive from any rank (its 1st call)"));
    const exploration again = allfold::replay(3, program, found.first().schedule);
    REQUIRE(!again.ok());
    CHECK(again.first().text == found.first().text);
}

TEST_CASE("two ranks that send to each other first deadlock unless messages are held for them") {
    const auto meet = [](allfold::mode how) {
        return explore(2, [how](explored_communicator& comm) {
            int x = 0;
            allfold::send(comm, comm.rank(), to{1 - comm.rank()}, how);
            allfold::receive(comm, x, from{1 - comm.rank()});
            return x;
        });
    };
    const exploration stuck = meet(allfold::mode::synchronous), unsafe = meet(allfold::mode::standard);
    INFO(explain(stuck) << explain(unsafe));
    CHECK((!stuck.ok() && stuck.first().what == verdict::deadlock));
    REQUIRE((unsafe.findings().size() == 1 && unsafe.executions() == 2 && unsafe.complete()));
    CHECK(unsafe.first().what == verdict::deadlock_unless_held);
    CHECK_THAT(unsafe.first().text, Catch::Matchers::ContainsSubstring("rank 0 waits in send, for rank 1"));
    CHECK(explore(2, [](explored_communicator& comm) {
              int x = comm.rank();
              allfold::exchange(comm, x, to{1 - comm.rank()}, from{1 - comm.rank()});
              return x;
          }).ok());
}

namespace {

/// If the first send of rank 1 is held, rank 2 may receive its second one first. Ranks 2 and 3 then send to each other
/// head to head, which deadlocks unless one of these two sends is held as well.
void held_here_and_not_there(explored_communicator& comm) {
    int x = 0;
    const tag late{5}, end{1};
    if (comm.rank() == 0) {
        allfold::receive(comm, x, from{2}, end);
        allfold::receive(comm, x, from{1});
    } else if (comm.rank() == 1) {
        allfold::send(comm, 1, to{0});
        allfold::send(comm, 1, to{2});
    } else if (comm.rank() == 3) {
        allfold::send(comm, 3, to{2});
        allfold::send(comm, 3, to{2}, late);
        allfold::receive(comm, x, from{2}, late);
    } else if (allfold::receive(comm, x, from{allfold::any}).source == 3) {
        allfold::receive(comm, x, from{3}, late);
        allfold::send(comm, 2, to{3}, late);
        allfold::send(comm, 2, to{0}, end);
        allfold::receive(comm, x, from{1});
    } else {
        allfold::receive(comm, x, from{3});
        allfold::send(comm, 2, to{3}, late);
        allfold::receive(comm, x, from{3}, late);
        allfold::send(comm, 2, to{0}, end);
    }
}

}  // namespace

TEST_CASE("a deadlock that needs one send to be held and another one not is found, and says which") {
    allfold::explore_options each;
    each.sends = allfold::standard_sends::each_by_itself;
    const exploration found = explore(4, held_here_and_not_there), every = explore(4, held_here_and_not_there, each);
    INFO(explain(found) << explain(every));
    CHECK((found.complete() && every.complete() && 20 * found.executions() < every.executions()));
    REQUIRE((found.findings().size() == 1 && every.findings().size() == 1));
    CHECK((found.first().what == verdict::deadlock_unless_held && found.first().text == every.first().text));
    CHECK_THAT(found.first().schedule, Catch::Matchers::StartsWith("4:U"));
    const std::string history = allfold::history_of(found.first());
    INFO(history);
    CHECK_THAT(history, Catch::Matchers::ContainsSubstring("rank 1 calls send to rank 0 (its 1st call)\n") &&
                            Catch::Matchers::ContainsSubstring("rank 1 has its send held\n"));
    for (const auto& [schedule, options] :
         {std::pair(found.first().schedule, allfold::explore_options()), std::pair(every.first().schedule, each)}) {
        const exploration again = allfold::replay(4, held_here_and_not_there, schedule, options);
        REQUIRE(!again.ok());
        CHECK((again.first().what == found.first().what && again.first().text == found.first().text));
    }
}

TEST_CASE("a fault that needs one rank to find its send done and another one not is found, also in parts") {
    const auto program = [](explored_communicator& comm) {
        const int other = 1 - comm.rank();
        int x = comm.rank(), y = 0;
        allfold::operation sent = allfold::send.start(comm, x, to{other});
        if (!sent.done()) allfold::barrier(comm);
        allfold::receive(comm, y, from{other});
        sent.wait();
    };
    allfold::explore_options each, part;
    each.sends = allfold::standard_sends::each_by_itself;
    const exploration found = explore(2, program), every = explore(2, program, each);
    INFO(explain(found) << explain(every));
    CHECK((found.complete() && found.executions() == every.executions()));
    REQUIRE((found.findings().size() == 2 && every.findings().size() == 2));
    for (const allfold::finding& one : found.findings()) {
        CHECK(one.what == verdict::deadlock_unless_held);
        const exploration again = allfold::replay(2, program, one.schedule);
        CHECK((!again.ok() && again.first().text == one.text));
    }
    CHECK_THAT(found.first().schedule, Catch::Matchers::StartsWith("2:T0.T1."));
    part.executions = 2;
    exploration some = explore(2, program, part);
    for (; !some.complete(); some = explore(2, program, part)) part.frontier = some.frontier();
    CHECK(explain(some) == explain(found));
}

TEST_CASE("a send during which a function is called waits or is held as the program may see") {
    allfold::explore_options each;
    each.sends = allfold::standard_sends::each_by_itself;
    for (const allfold::explore_options& options : {allfold::explore_options(), each}) {
        std::set<std::pair<bool, bool>> seen;
        std::pair<bool, bool> now;
        allfold::explore_options counted = options;
        test::after_each_execution(counted, [&] { seen.insert(now); });
        const exploration found = explore(
            2,
            [&](explored_communicator& comm) {
                int x = 0, y = 0;
                if (comm.rank() == 0) {
                    allfold::operation first = allfold::receive.start(comm, x, from{1});
                    now.first = first.done();
                    allfold::send(comm, 1, to{1}, tag{1}, allfold::mode::synchronous);
                    return allfold::send(comm, 1, to{1});
                }
                bool is_called = false;
                allfold::operation late = allfold::receive.start(comm, x, from{0});
                late.then([&] { is_called = true; });
                allfold::operation awaited = allfold::receive.start(comm, y, from{0}, tag{1});
                allfold::send(comm, 1, to{0});
                awaited.wait();
                now.second = is_called;
            },
            counted);
        INFO(explain(found));
        CHECK(seen.size() == 4);
    }
}

TEST_CASE("a deadlock of sends that wait is found in the execution whose values are the first to differ") {
    const exploration found = explore(4, [](explored_communicator& comm) {
        constexpr auto synchronous = allfold::mode::synchronous;
        const int self = comm.rank();
        int first = self, x = 0;
        if (self == 1 || self == 2) allfold::send(comm, self, to{0}, synchronous);
        if (self == 0) {
            allfold::receive(comm, first, from{allfold::any});
            allfold::receive(comm, x, from{allfold::any});
            allfold::send(comm, first, to{3}, synchronous);
        }
        if (self == 3) allfold::receive(comm, first, from{0});
        if ((self == 0 || self == 3) && first == 2) {  // head to head
            allfold::send(comm, x, to{3 - self});
            allfold::receive(comm, x, from{3 - self});
        }
        return first;
    });
    INFO(explain(found));
    REQUIRE((found.complete() && found.findings().size() >= 2));
    CHECK(std::ranges::count(found.findings(), verdict::deadlock_unless_held, &allfold::finding::what) == 1);
}

TEST_CASE("a rank that waits with a send takes in what has come before its next collective") {
    const exploration found = explore(3, [](explored_communicator& comm) {
        int x = 0, y = 0;
        if (comm.rank() == 0) {  // waits for rank 2, which waits for all ranks
            allfold::send(comm, 5, to{2});
            auto there = allfold::receive.start(comm, x, from{2}, tag{2});
            allfold::barrier(comm);
            return there.wait();
        }
        if (comm.rank() == 2) allfold::send(comm, 6, to{1});
        allfold::barrier(comm);
        if (comm.rank() == 2) allfold::send(comm, 7, to{0}, tag{2}, allfold::mode::ready);
        allfold::receive(comm, y, from{allfold::any});
    });
    INFO(explain(found));
    REQUIRE((!found.ok() && found.complete()));
    CHECK(found.first().what == verdict::deadlock_unless_held);
}

TEST_CASE("a rank that waits with a send takes in what has come before that of another communicator") {
    // If the first send of rank 0 waits for its receive, rank 1 waits in turn for the second one. The message of rank 1
    // arrives meanwhile; if sends are held, it may arrive after the message in the team. The program cannot tell the
    // difference.
    for (const bool asks_at_last : {false, true}) {
        const exploration found = explore(2, [asks_at_last](explored_communicator& comm) {
            auto team = allfold::subset(comm, allfold::rank_list({0, 1}));
            int x = comm.rank(), y = 0;
            if (comm.rank() == 0) {
                allfold::send(comm, x, to{1});
                allfold::send(comm, x, to{1}, tag{1});
                allfold::receive(*team, y, from{allfold::any});
                return static_cast<void>(allfold::receive(comm, y, asks_at_last ? from{allfold::any} : from{1}));
            }
            allfold::attach_buffer(comm, 100);
            allfold::send(comm, x, to{0}, allfold::mode::buffered);
            allfold::receive(comm, y, from{allfold::any}, tag{1});
            allfold::send(*team, x, to{0});
            allfold::receive(comm, y, from{0});
            allfold::detach_buffer(comm);
        });
        INFO(explain(found));
        REQUIRE((!found.ok() && found.complete()));
        CHECK(found.first().what == verdict::deadlock_unless_held);
    }
}

TEST_CASE("a rank that tests for what comes behind a send that waits makes no progress unless that is held") {
    const exploration found = explore(2, [](explored_communicator& comm) {
        int x = 0;
        if (comm.rank() == 1) {
            allfold::send(comm, 5, to{0}, tag{1});
            return allfold::send(comm, 6, to{0}, tag{2});
        }
        auto second = allfold::receive.start(comm, x, from{1}, tag{2});
        while (!second.done()) {
        }
        allfold::receive(comm, x, from{allfold::any}, tag{1});
    });
    INFO(explain(found));
    REQUIRE((found.findings().size() == 1 && found.complete()));
    CHECK(found.first().what == verdict::no_progress);
}

TEST_CASE("a send that waits in vain is told once where its message is never received") {
    const exploration found = explore(2, [](explored_communicator& comm) {
        if (comm.rank() == 1) allfold::send(here(comm), 5, to{0});
    });
    INFO(explain(found));
    REQUIRE(found.findings().size() == 1);
    CHECK(found.first().what == verdict::never_received);
    CHECK_THAT(found.first().text,
               Catch::Matchers::ContainsSubstring("never received: send to rank 0 (its 1st call, explore_test.cpp:"));
}

TEST_CASE("one element is not called elements") {
    const exploration found = explore(2, [](explored_communicator& comm) {
        std::vector<int> three(3);
        int x = 0;
        if (comm.rank() == 0) allfold::send(comm, three, to{1});
        if (comm.rank() == 1) allfold::receive(comm, x, from{0});
    });
    CHECK_THAT(found.first().text, Catch::Matchers::ContainsSubstring("has room for 1 element, but rank 0 sent 3"));
}

TEST_CASE("a deadlock names the messages that the ranks which wait have not received") {
    const exploration tags = explore(2, [](explored_communicator& comm) {
        int x = 0;
        if (comm.rank() == 0) allfold::send(comm, x, to{1}, tag{3});
        if (comm.rank() == 1) allfold::receive(comm, x, from{0}, tag{4});
    });
    INFO(explain(tags));
    REQUIRE((tags.findings().size() == 1 && tags.first().what == verdict::deadlock));
    CHECK_THAT(tags.first().text,
               Catch::Matchers::EndsWith("\n    a message of 4 bytes with tag 3 from rank 0 to rank 1 "
                                         "is never received: send to rank 1, tag 3 (its 1st call)"));
    const exploration teams = explore(2, [](explored_communicator& comm) {
        int x = 0;
        auto team = allfold::subset(comm, {0, 1});
        if (comm.rank() == 0) allfold::send(*team, x, to{1});
        if (comm.rank() == 1) allfold::receive(comm, x, from{0});
    });
    INFO(explain(teams));
    REQUIRE((teams.findings().size() == 1 && teams.first().what == verdict::deadlock));
    CHECK_THAT(teams.first().text, Catch::Matchers::ContainsSubstring("from rank 0 to rank 1 is never received"));
    const exploration head_to_head = explore(2, [](explored_communicator& comm) {
        int x = 0;
        allfold::send(comm, x, to{1 - comm.rank()}, allfold::mode::synchronous);
        allfold::receive(comm, x, from{1 - comm.rank()});
    });
    INFO(explain(head_to_head));
    REQUIRE((head_to_head.findings().size() == 1 && head_to_head.first().what == verdict::deadlock));
    CHECK(head_to_head.first().text.find("never received") == std::string::npos);  // each rank waits in that send
    const exploration skipped = explore(3, [](explored_communicator& comm) {
        if (comm.rank() != 2) allfold::barrier(comm);
    });
    CHECK(skipped.first().what == verdict::deadlock);
    CHECK(skipped.first().text.find("never received") == std::string::npos);  // it is part of the barrier
}

TEST_CASE("a message that has come, and is never received, is found too, and so is each of several") {
    const exploration found = explore(2, [](explored_communicator& comm) {
        double x = 0;
        for (int i = 0; i < 3 && comm.rank() == 1; ++i) allfold::send(comm, x, to{0}, tag{i});
        if (comm.rank() == 0) allfold::receive(comm, x, from{1}, tag{1});
    });
    INFO(explain(found));
    REQUIRE(found.findings().size() == 1);
    CHECK((found.first().what == verdict::never_received && found.executions() == 1));
    const std::string lost = " from rank 1 to rank 0 is never received: send to rank 0";
    CHECK(found.first().text == "a message of 8 bytes with tag 0" + lost + " (its 1st call)\n" +
                                    "    a message of 8 bytes with tag 2" + lost + ", tag 2 (its 3rd call)");
}

TEST_CASE("a message that has come before one that its receiver sends to itself may be received first") {
    const exploration found = explore(2, [](explored_communicator& comm) {
        int x = comm.rank() + 1, first = 0, y = 0;
        if (comm.rank() == 1) {
            allfold::send(comm, x, to{0}, tag{1});
            allfold::send(comm, x, to{0});
            return 0;
        }
        allfold::receive(comm, y, from{1}, tag{1});
        auto own = allfold::send.start(comm, x, to{0});
        allfold::receive(comm, first, from{allfold::any});
        allfold::receive(comm, y, from{allfold::any});
        own.wait();
        return first;
    });
    INFO(explain(found));
    REQUIRE(!found.ok());
    CHECK(found.first().what == verdict::different_values);
}

TEST_CASE("a message is lost although its sender still waits in the same call when its receiver returns") {
    const exploration found = explore(
        2,
        [](explored_communicator& comm) {
            int x = 1, y = 0;
            if (comm.rank() == 1) return allfold::exchange(comm, x, to{0}, y, from{0}), void();
            static_cast<void>(allfold::probe(comm, from{1}));  // looks at it, and never receives it
            allfold::send(comm, x, to{1});
        },
        held());
    INFO(explain(found));
    REQUIRE(!found.ok());
    CHECK(found.first().what == verdict::never_received);
}

TEST_CASE("a receive that refuses its message is a fault even if the program catches the exception") {
    const auto catches = []<class Place>(explored_communicator& comm, Place place) {
        const std::array<int, 2> x{};
        try {
            if (comm.rank() == 0) allfold::receive(comm, place, from{1});
        } catch (const allfold::error&) {
        }
        if (comm.rank() == 1) allfold::send(comm, x, to{0});
    };
    const exploration longer = explore(2, [&](explored_communicator& comm) { catches(comm, std::array<int, 1>()); });
    INFO(explain(longer));
    REQUIRE(!longer.ok());
    CHECK(longer.first().what == verdict::failed);
    const exploration other = explore(2, [&](explored_communicator& comm) { catches(comm, std::array<float, 2>()); });
    INFO(explain(other));
    REQUIRE(!other.ok());
    CHECK(other.first().what == verdict::disagreement);
}

TEST_CASE("a send to nobody is no choice") {
    const exploration found =
        explore(2, [](explored_communicator& comm) { allfold::send(comm, 5, to{allfold::none}); });
    INFO(explain(found));
    CHECK((found.ok() && found.executions() == 1));
}

TEST_CASE("a receive from any rank may take what was meant for a later one, unless tags tell them apart") {
    const auto phases = [](bool has_tags) {
        return explore(3, [has_tags](explored_communicator& comm) {
            std::array<int, 2> sums{};
            for (int phase = 0; phase < 2; ++phase) {
                const tag under{has_tags ? phase : 0};
                if (comm.rank() != 0) allfold::send(comm, 10 * phase + 1, to{0}, under);
                for (int i = 1; comm.rank() == 0 && i < comm.size(); ++i) {
                    int x = 0;
                    allfold::receive(comm, x, from{allfold::any}, under);
                    sums[static_cast<std::size_t>(phase)] += x;
                }
            }
            return sums;
        });
    };
    const exploration stolen = phases(false), told_apart = phases(true);
    INFO(explain(stolen) << explain(told_apart));
    CHECK((!stolen.ok() && stolen.first().what == verdict::different_values));
    CHECK((told_apart.ok() && told_apart.complete()));
}

TEST_CASE("a message that nobody receives is found, beside collectives that all make") {
    const exploration found = explore(2, [](explored_communicator& comm) {
        if (comm.rank() == 1) allfold::send(comm, 5, to{0});
        allfold::barrier(comm);
        return allfold::all_reduce(comm, 1, allfold::sum());
    });
    INFO(explain(found));
    CHECK((!found.ok() && found.first().what == verdict::never_received));
}

TEST_CASE("a test of a user's own says that a program has no fault, or which one") {
    const auto adds = [](explored_communicator& comm) { return take_all(comm, 1, add); };
    const auto appends = [](auto& comm) { return take_all(comm, 1, append); };
    CHECK_THAT(explore(4, adds), allfold::without_fault());
    CHECK_THAT(adds, allfold::explored_without_fault(4));
    CHECK_THAT([](explored_communicator& comm) { allfold::barrier(comm); }, allfold::explored_without_fault(2));
    const allfold::explored_without_fault of_three(3, held());
    CHECK_FALSE(of_three.match(appends));
    CHECK_THAT(of_three.toString(), Catch::Matchers::ContainsSubstring("rank 0 returns 21, but 12") &&
                                        Catch::Matchers::ContainsSubstring("rank 0   gets 1 (message) from rank 1"));
    const allfold::without_fault matcher;
    CHECK_FALSE(matcher.match(explore(3, appends)));
    CHECK_THAT(matcher.toString(), Catch::Matchers::ContainsSubstring("different values: rank 0 returns 21, but 12"));
    allfold::explore_options few;
    few.executions = 2;
    CHECK_FALSE(matcher.match(explore(4, adds, few)));  // there are more executions, and one of them may have a fault
}

TEST_CASE("a fault names the calls, where they stand if the program says it, and how it comes to it") {
    const auto program = [](explored_communicator& comm) {
        int x = 0;
        if (comm.rank() != 0) allfold::send(here(comm), x, to{0}, tag{comm.rank()});
        if (comm.rank() == 0) allfold::receive(comm, x, from{allfold::any}, tag{allfold::any});
        if (comm.rank() == 0) allfold::receive(here(comm), x, from{1});
    };
    const std::string line = std::to_string(__LINE__ - 2);
    const exploration found = explore(3, program, held());
    INFO(explain(found));
    REQUIRE(!found.ok());
    using Catch::Matchers::ContainsSubstring;
    CHECK_THAT(found.first().text, ContainsSubstring("rank 0 waits in receive, for rank 1, which has returned: receive "
                                                     "from rank 1 (its 2nd call, explore_test.cpp:" +
                                                     line + ")"));
    const std::string history = allfold::history_of(found.first());
    INFO(history);
    CHECK_THAT(history, ContainsSubstring("rank 1 calls send to rank 0, tag 1 (its 1st call, explore_test.cpp:") &&
                            ContainsSubstring("rank 0 calls receive from any rank, any tag (its 1st call)") &&
                            ContainsSubstring("rank 1   posts 1 (message) to rank 0\n") &&
                            ContainsSubstring("rank 0   gets 1 (message) from rank 1\n") &&
                            ContainsSubstring("rank 2 has returned\n"));
    const std::string picture = allfold::draw(found);
    INFO(picture);
    CHECK_THAT(picture, ContainsSubstring("<svg ") && ContainsSubstring("replay: 3:") &&
                            ContainsSubstring("receive from any rank, any tag (its 1st call)") &&
                            ContainsSubstring("<tspan font-weight='bold'>has returned</tspan>"));
    std::size_t arrows = 0;
    for (std::size_t i = picture.find("marker-end"); i != std::string::npos; i = picture.find("marker-end", i + 1))
        ++arrows;
    CHECK(arrows == 2);
    CHECK(allfold::replay(3, program, found.first().schedule, held()).first().history.size() ==
          found.first().history.size());
    CHECK_THROWS_AS(allfold::draw(explore(1, [](auto&) {})), allfold::error);
}

TEST_CASE("a long history is shown in few lines: tests in vain as one, and the latest steps of each rank") {
    using Catch::Matchers::ContainsSubstring;
    const exploration spins = explore(2, [](explored_communicator& comm) {
        int x = 0;
        auto never = allfold::receive.start(comm, x, from{1 - comm.rank()});
        while (comm.rank() == 0 && !never.done()) {
        }
        static_cast<void>(never.cancel());
    });
    INFO(explain(spins));
    const std::string history = allfold::history_of(spins.first());
    CHECK_THAT(history, ContainsSubstring("rank 0 tests 1000 times, and gets nothing\n"));
    CHECK(std::ranges::count(history, '\n') < 12);

    const auto program = [](explored_communicator& comm) {
        int x = 0;
        for (int i = 0; i < 500; ++i) allfold::barrier(comm);
        if (comm.rank() == 0) allfold::receive(comm, x, from{1});
    };
    const exploration waits = explore(2, program);
    REQUIRE(!waits.ok());
    const std::string picture = allfold::draw(waits);
    CHECK_THAT(picture, ContainsSubstring(" steps that are left out") &&
                            ContainsSubstring("barrier (its 500th call)") &&
                            !ContainsSubstring("barrier (its 400th call)"));
    const std::size_t width = picture.find("width='") + 7;
    CHECK(std::stoi(picture.substr(width)) < 10000);
    const auto said = allfold::without_fault();
    CHECK(!said.match(waits));
    const std::string words = said.toString();
    CHECK_THAT(words, ContainsSubstring("rank 0 makes ") && ContainsSubstring("calls barrier (its 500th call)"));
    CHECK(std::ranges::count(words, '\n') < 100);
    CHECK(std::ranges::count(allfold::history_of(waits.first()), '\n') > 2000);
}

TEST_CASE("of several executions with the same fault the one with the shortest schedule is shown") {
    const auto program = [](explored_communicator& comm) {
        std::array<int, 3> order{};
        if (comm.rank() != 0) allfold::send(comm, comm.rank(), to{0});
        for (std::size_t i = 0; comm.rank() == 0 && i < order.size(); ++i)
            allfold::receive(comm, order[i], from{allfold::any});
        if (order == std::array{1, 3, 2} || order == std::array{2, 1, 3}) throw std::runtime_error("not so");
    };
    const exploration found = explore(4, program, held());
    INFO(explain(found));
    REQUIRE(found.findings().size() == 1);
    CHECK(found.first().schedule == "4:1");  // 4:01 is found first
    CHECK(!allfold::replay(4, program, found.first().schedule, held()).ok());
}

TEST_CASE("a standard send may be held however long it is, and however much is held") {
    for (const std::size_t elements : {std::size_t{1}, std::size_t{100000}, std::size_t{2000000}}) {
        const auto head_to_head = [elements](explored_communicator& comm) {
            const std::vector<int> x(elements, comm.rank());
            std::vector<int> y(elements, -1);
            const int other = 1 - comm.rank();
            for (int i = 0; i < 2; ++i) allfold::send(comm, x, to{other});
            for (int i = 0; i < 2; ++i) allfold::receive(comm, y, from{other});
            return y.front() + y.back();
        };
        const exploration found = explore(2, head_to_head);
        INFO(explain(found));
        REQUIRE(!found.ok());
        CHECK(found.first().what == verdict::deadlock_unless_held);
    }
}

TEST_CASE("every mode, prepared messages, probes that wait, and every way to ask what is done are explored") {
    using allfold::mode;
    struct program {
        const char* name;
        int ranks;
        void (*run)(explored_communicator&);
        std::uint64_t executions;  // 0: not known in advance
    };
    const program programs[]{
        {"a ready send whose receive is there", 2,
         [](explored_communicator& comm) {
             int x = 0;
             if (comm.rank() == 0) {
                 allfold::barrier(comm);
                 return allfold::send(comm, 7, to{1}, mode::ready);
             }
             auto there = allfold::receive.start(comm, x, from{0});
             allfold::barrier(comm);
             there.wait();
         },
         0},
        {"synchronous sends to one that takes any", 4,
         [](explored_communicator& comm) {
             int x = 0;
             if (comm.rank() != 0) return allfold::send(comm, 7, to{0}, mode::synchronous);
             for (int i = 0; i < 3; ++i) allfold::receive(comm, x, from{allfold::any});
         },
         6},
        {"a probe that waits for any, whose message nobody else gets", 4,
         [](explored_communicator& comm) {
             int x = 0;
             if (comm.rank() != 0) return allfold::send(comm, comm.rank(), to{0});
             for (int i = 0; i < 3; ++i) {
                 allfold::message found = allfold::probe(comm, from{allfold::any});
                 allfold::receive(found, x);
                 if (x != found.about().source || found) throw std::logic_error("another message");
             }
         },
         12},  // 3! with sends held, and 3! with sends that wait
        {"a send that is let go of, and done at once", 2,
         [](explored_communicator& comm) {
             static const int seven = 7;
             int x = 0;
             if (comm.rank() == 1) {
                 allfold::receive(comm, x, from{0});
                 if (x != 7) throw std::logic_error("another value");
                 return;
             }
             allfold::attach_buffer(comm, sizeof seven);
             allfold::send.start(comm, seven, to{1}, mode::buffered).release();
             allfold::detach_buffer(comm);
         },
         0},
        {"prepared messages that are started together, twice", 2,
         [](explored_communicator& comm) {
             const int other = 1 - comm.rank();
             int x = comm.rank(), y = -1, z = -1, both = comm.rank();
             std::array<allfold::persistent, 3> all{
                 allfold::receive.prepare(comm, y, from{other}),
                 allfold::send.prepare(comm, x, to{other}, mode::synchronous),
                 allfold::exchange.prepare(comm, both, to{other}, z, from{other}, tag{1})};
             for (int turn = 0; turn < 2; ++turn) {
                 y = z = -1;
                 allfold::start_all(all);
                 allfold::wait_all(all);
                 if (y != other || z != other) throw std::logic_error("another value");
             }
         },
         0},
        {"test_any, test_some and test_all", 3,
         [](explored_communicator& comm) {
             int x = 0, y = 0;
             if (comm.rank() != 0) return allfold::send(comm, comm.rank(), to{0}, mode::synchronous);
             std::array<allfold::operation, 2> all{allfold::receive.start(comm, x, from{1}),
                                                   allfold::receive.start(comm, y, from{2})};
             if (const auto first = allfold::test_any(all); first && (*first == 0 ? x != 1 : y != 2))
                 throw std::logic_error("it is not done");
             for (const std::size_t each : allfold::test_some(all))
                 if (each == 0 ? x != 1 : y != 2) throw std::logic_error("it is not done");
             if (allfold::test_all(all) && (x != 1 || y != 2)) throw std::logic_error("they are not done");
             allfold::wait_all(all);
         },
         0},
    };
    for (const program& each : programs) {
        const exploration found = explore(each.ranks, each.run);
        INFO(each.name << "\n" << explain(found));
        CHECK((found.ok() && found.complete()));
        if (each.executions != 0) CHECK(found.executions() == each.executions);
    }
}

TEST_CASE("mistakes with messages have their verdicts, with the ranks and what they have done") {
    struct mistake {
        int ranks;
        void (*run)(explored_communicator&);
        verdict what;
        std::vector<std::string> words;
    };
    const mistake mistakes[]{
        {3,  // a ready send that arrives before its receive is posted, if another message is late
         [](explored_communicator& comm) {
             int x = 0;
             if (comm.rank() == 0) return allfold::send(here(comm), 7, to{1}, allfold::mode::ready);
             if (comm.rank() == 2) return allfold::send(here(comm), 7, to{1});
             allfold::receive(here(comm), x, from{2});
             allfold::receive(here(comm), x, from{0});
         },
         verdict::failed,
         {"rank 0 sends to rank 1 with tag 0 in mode::ready, but rank 1 had not posted a receive",
          ": send to rank 1 (its 1st call, explore_test.cpp:"}},
        {2,  // the same, between two calls of its receiver
         [](explored_communicator& comm) {
             int x = 0;
             if (comm.rank() == 0) {
                 allfold::send(comm, 7, to{1});
                 return allfold::send(here(comm), 7, to{1}, tag{1}, allfold::mode::ready);
             }
             allfold::receive(comm, x, from{0});
             allfold::receive(comm, x, from{0}, tag{1});
         },
         verdict::failed,
         {"mode::ready, but rank 1 had not posted a receive",
          ": send to rank 1, tag 1 (its 2nd call, explore_test.cpp:"}},
        {2,  // never received; its sender keeps it until it has been sent
         [](explored_communicator& comm) {
             allfold::attach_buffer(comm, sizeof(int));
             if (comm.rank() == 1) allfold::send(here(comm), 5, to{0}, allfold::mode::buffered);
             allfold::detach_buffer(comm);
         },
         verdict::never_received,
         {"from rank 1 to rank 0 is never received: send to rank 0 (its 1st call, explore_test.cpp:"}},
        {2,  // a message that is too long
         [](explored_communicator& comm) {
             std::vector<int> x(2);
             if (comm.rank() == 0) return allfold::send(here(comm), std::array{1, 2, 3}, to{1});
             auto first = allfold::receive.start(here(comm), x, from{0});
             allfold::send(comm, 0, to{allfold::none});  // its latest call, which is not the one that fails
             first.wait();
         },
         verdict::failed,
         {"rank 1 has room for 2 elements, but rank 0 sent 3",
          ": receive from rank 0 (its 1st call, explore_test.cpp:"}},
        {2,  // a message of another type
         [](explored_communicator& comm) {
             float x = 0;
             if (comm.rank() == 0) return allfold::send(here(comm), 1, to{1});
             allfold::receive(here(comm), x, from{0});
         },
         verdict::disagreement,
         {"rank 1 receives elements of type float, but rank 0 sent elements of type int",
          ": receive from rank 0 (its 1st call, explore_test.cpp:"}},
        {2,  // operators that differ
         [](explored_communicator& comm) {
             int x = comm.rank();
             if (comm.rank() == 0)
                 allfold::all_reduce(here(comm), x, allfold::sum());
             else
                 allfold::all_reduce(here(comm), x, allfold::max());
         },
         verdict::disagreement,
         {"folds with", "sum", "max: all_reduce (its 1st call, explore_test.cpp:"}},
        {2,  // a rank that aborts ends the program for all
         [](explored_communicator& comm) {
             allfold::barrier(here(comm));
             if (comm.rank() == 1) allfold::abort(comm, "the input is empty");
             allfold::barrier(here(comm));
         },
         verdict::failed,
         {"rank 1", "the input is empty; its latest call: barrier (its 1st call, explore_test.cpp:"}},
        {2,  // tests forever
         [](explored_communicator& comm) {
             int x = 0;
             auto never = allfold::receive.start(here(comm), x, from{1 - comm.rank()});
             while (comm.rank() == 0 && !never.done()) {
             }
             static_cast<void>(never.cancel());
         },
         verdict::no_progress,
         {"rank 0"}},
        {2,  // released: nobody can tell when it is done
         [](explored_communicator& comm) {
             static const int seven = 7;
             int x = 0;
             if (comm.rank() == 0) allfold::send.start(here(comm), seven, to{1}, allfold::mode::synchronous).release();
             if (comm.rank() == 1) allfold::receive(here(comm), x, from{0});
             allfold::barrier(here(comm));
         },
         verdict::never_completed,
         {"send: its communicator ended before it was done: rank 0 waits for rank 1",
          ": send to rank 1 (its 1st call, explore_test.cpp:"}},
        {2,  // forgotten: still in flight when its communicator ends
         [](explored_communicator& comm) {
             static int x = 0;
             static std::vector<allfold::operation> kept;
             if (comm.rank() == 1) return;
             kept.clear();
             kept.push_back(allfold::receive.start(here(comm), x, from{1}));
         },
         verdict::never_completed,
         {"receive: its communicator ended before it was done: rank 0 waits for rank 1",
          ": receive from rank 1 (its 1st call, explore_test.cpp:"}},
    };
    for (const mistake& each : mistakes) {
        const exploration found = explore(each.ranks, each.run);
        INFO(each.words.front() << "\n" << explain(found));
        REQUIRE(!found.ok());
        CHECK(found.first().what == each.what);
        for (const std::string& words : each.words)
            CHECK_THAT(explain(found), Catch::Matchers::ContainsSubstring(words));
        const exploration again = allfold::replay(each.ranks, each.run, found.first().schedule);
        REQUIRE(!again.ok());
        CHECK(again.first().text == found.first().text);
    }
}

TEST_CASE("a communicator that a rank keeps is reported, and may be used and destroyed after the program") {
    std::array<allfold::team<explored_communicator>, 2> kept;
    const allfold::rank_list both{0, 1};
    const exploration found = explore(2, [&](explored_communicator& comm) {
        auto own = allfold::subset(here(comm), both);
        allfold::barrier(*own);
        auto& place = kept[static_cast<std::size_t>(comm.rank())];
        place = std::move(own);  // ends the one from the previous execution
    });
    INFO(explain(found));
    REQUIRE(found.findings().size() == 1);
    CHECK(found.first().what == verdict::never_freed);
    CHECK_THAT(found.first().text,
               Catch::Matchers::StartsWith(
                   "rank 0 has returned but still holds a communicator of 2 ranks, created at explore_test.cpp:") &&
                   Catch::Matchers::ContainsSubstring("\n    rank 1 has returned but still holds a communicator"));
    int x = 0;
    auto& late = *kept[0];
    CHECK_THROWS_AS(allfold::barrier(here(late)), allfold::error);
    CHECK_THROWS_AS(allfold::receive(late, x, from{1}), allfold::error);
    CHECK_THROWS_AS(allfold::try_probe(late, from{1}), allfold::error);
    CHECK_THROWS_AS(allfold::subset(late, both), allfold::error);

    const exploration used = explore(2, [&](explored_communicator& comm) {
        auto& place = kept[static_cast<std::size_t>(comm.rank())];
        if (place) allfold::barrier(*place);
    });
    INFO(explain(used));
    REQUIRE(!used.ok());
    CHECK_THAT(used.first().text, Catch::Matchers::ContainsSubstring("used after its execution has ended"));
}
