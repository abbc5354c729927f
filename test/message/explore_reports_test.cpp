// SPDX-License-Identifier: BSL-1.0
#include <array>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/analysis/explore.hpp"
#include "allfold/analysis/explored_communicator.hpp"
#include "allfold/analysis/here.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/barrier.hpp"
#include "allfold/collective/broadcast.hpp"
#include "allfold/collective/gather.hpp"
#include "allfold/collective/subset.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/error.hpp"
#include "allfold/message.hpp"
#include "allfold/transport/rank_list.hpp"
#include "test/support/catch.hpp"

/// @file
/// How explore reports where a fault is: places, calls, teams.

using allfold::explain;
using allfold::exploration;
using allfold::explore;
using allfold::explored_communicator;
using allfold::from;
using allfold::here;
using allfold::tag;
using allfold::to;
using allfold::verdict;

TEST_CASE("a place belongs to its own statement, and to every start of what is prepared there") {
    using Catch::Matchers::ContainsSubstring;
    const std::string file = "explore_reports_test.cpp:";
    const int line = __LINE__;
    const auto prepared = [](explored_communicator& comm) {
        int x = 1, y = 0, z = 0;
        auto sends = allfold::send.prepare(here(comm), x, to{1 - comm.rank()}, allfold::mode::synchronous);
        auto receives = allfold::receive.prepare(here(comm), y, from{1 - comm.rank()});
        auto adds = allfold::all_reduce.prepare(here(comm), z, allfold::sum());
        for (int i = 0; i < 2; ++i) {
            adds.start();
            sends.start();
            receives.start();
            if (i == 1 && comm.rank() == 0) throw std::runtime_error("stop");
            allfold::wait_all(sends, receives, adds);
        }
    };
    const exploration found = explore(2, prepared);
    INFO(explain(found) << allfold::history_of(found.first()));
    for (const auto& [what, at] : {std::pair{"calls send to rank 1 (its 6th call, ", line + 3},
                                   std::pair{"calls receive from rank 1 (its 7th call, ", line + 4},
                                   std::pair{"calls all_reduce (its 5th call, ", line + 5}})
        CHECK_THAT(allfold::history_of(found.first()), ContainsSubstring(what + file + std::to_string(at)));

    const exploration stale = explore(2, [](explored_communicator& comm) {
        int y = 0;
        allfold::attach_buffer(here(comm), 100);
        if (comm.rank() == 0) CHECK_THROWS_AS(allfold::send(here(comm), y, to{7}), allfold::error);
        if (comm.rank() == 0) static_cast<void>(allfold::try_probe(here(comm), from{1}));
        allfold::receive(comm, y, from{1 - comm.rank()});
    });
    REQUIRE(!stale.ok());
    CHECK_THAT(explain(stale), !ContainsSubstring(file));
}

TEST_CASE("what a call refuses before it begins is reported with the place of the call") {
    struct refusal {
        const char* what;
        void (*run)(explored_communicator&);
    };
    const refusal refusals[]{
        {"send: destination rank 2 is not in [0, 2)",
         [](explored_communicator& comm) { allfold::send(here(comm), 1, to{2}); }},
        {"receive: source rank 7 is not in [0, 2)",
         [](explored_communicator& comm) {
             int y = 0;
             auto never = allfold::receive.start(here(comm), y, from{7});
         }},
        {"passes a negative tag", [](explored_communicator& comm) { allfold::send(here(comm), 1, to{0}, tag{-4}); }},
        {"but only 0 of the 0 attached bytes are free",
         [](explored_communicator& comm) { allfold::send(here(comm), 1, to{0}, allfold::mode::buffered); }},
        {"gather",
         [](explored_communicator& comm) {
             std::vector<int> x(1), y(4);
             allfold::gather(here(comm), x, y, allfold::root{0});
         }},
        {"root",
         [](explored_communicator& comm) {
             std::vector<int> x(1);
             allfold::broadcast(here(comm), x, allfold::root{2});
         }},
    };
    for (const refusal& each : refusals) {
        for (const bool is_first : {true, false}) {
            const exploration found = explore(2, [&](explored_communicator& comm) {
                if (!is_first) allfold::barrier(comm);
                each.run(comm);
            });
            INFO(explain(found));
            REQUIRE(!found.ok());
            CHECK_THAT(found.first().text, Catch::Matchers::ContainsSubstring(each.what) &&
                                               Catch::Matchers::ContainsSubstring(" (explore_reports_test.cpp:") &&
                                               !Catch::Matchers::ContainsSubstring("its latest call"));
        }
    }
    const exploration other = explore(1, [](explored_communicator& comm) {
        CHECK_THROWS_AS(allfold::send(here(comm), 1, to{2}), allfold::error);
        throw std::runtime_error("the program's own");
    });
    CHECK_THAT(explain(other), !Catch::Matchers::ContainsSubstring("explore_reports_test.cpp"));
}

TEST_CASE("a rank that tests again and again is reported with what it tests, and where") {
    using Catch::Matchers::ContainsSubstring;
    const auto text_of = [](auto tests) {
        const exploration found = explore(2, [&](explored_communicator& comm) {
            if (comm.rank() == 0) tests(comm);
        });
        CHECK(found.first().what == verdict::no_progress);
        return explain(found);
    };
    const std::string words = "rank 0 has tested 1000 times since its latest message";
    CHECK_THAT(text_of([](explored_communicator& comm) {
                   int x = 0, y = 0;
                   auto other = allfold::receive.start(comm, y, from{1}, tag{1});
                   auto never = allfold::receive.start(here(comm), x, from{1});
                   while (!never.done()) {
                   }
               }),
               ContainsSubstring(words + ": receive from rank 1 (its 2nd call, explore_reports_test.cpp:"));
    CHECK_THAT(
        text_of([](explored_communicator& comm) {
            int x = 0, y = 0;
            std::vector<allfold::operation> both;
            both.push_back(allfold::all_reduce.start(comm, y, allfold::sum()));
            both.push_back(allfold::receive.start(here(comm), x, from{1}));
            while (!allfold::test_any(both)) {
            }
        }),
        ContainsSubstring(words +
                          ": all_reduce (its 1st call), receive from rank 1 (its 2nd call, explore_reports_test.cpp:"));
    CHECK_THAT(text_of([](explored_communicator& comm) {
                   while (!allfold::try_probe(here(comm), from{1})) {
                   }
               }),
               ContainsSubstring(words + " (explore_reports_test.cpp:"));
}

TEST_CASE("a rank that waits for any of several operations is reported with all of them") {
    using Catch::Matchers::ContainsSubstring;
    const auto text_of = [](auto waits) {
        const exploration found = explore(3, [&](explored_communicator& comm) {
            std::array<int, 3> y{};
            if (comm.rank() == 1) allfold::send(comm, 1, to{0}, tag{1});
            if (comm.rank() != 0) allfold::receive(comm, y[0], from{0});
            std::vector<allfold::operation> all;
            all.push_back(allfold::receive.start(comm, y[0], from{1}, tag{1}));
            all.push_back(allfold::receive.start(here(comm), y[1], from{1}));
            all.push_back(allfold::receive.start(here(comm), y[2], from{2}));
            for (int i = 0; i < 2; ++i) waits(all);
        });
        CHECK(found.first().what == verdict::deadlock);
        return explain(found);
    };
    const std::string words =
        "rank 0 waits for one of 2 operations: receive from rank 1 (its 2nd call, explore_reports_test.cpp:";
    for (const std::string& text : {text_of([](auto& all) { static_cast<void>(allfold::wait_any(all)); }),
                                    text_of([](auto& all) { static_cast<void>(allfold::wait_some(all)); })})
        CHECK_THAT(text, ContainsSubstring(words) && ContainsSubstring("), receive from rank 2 (its 3rd call, "));
    CHECK_THAT(text_of([](auto& all) { allfold::wait_all(all); }),
               ContainsSubstring("rank 0 waits in receive, for rank 1: receive from rank 1 (its 2nd call, "));
}

TEST_CASE("reports name teams by their members, and say whose numbers the ranks have") {
    using Catch::Matchers::ContainsSubstring;
    const exploration order = explore(3, [](explored_communicator& comm) {
        auto all = allfold::subset(comm, allfold::rank_list{0, 1, 2});
        auto some = allfold::subset(comm, allfold::rank_list{0, 2});
        int x = 1;
        if (comm.rank() == 0) allfold::all_reduce(*some, x, allfold::sum());
        allfold::all_reduce(*all, x, allfold::sum());
        if (comm.rank() == 2) allfold::all_reduce(*some, x, allfold::sum());
    });
    INFO(explain(order));
    CHECK_THAT(explain(order), ContainsSubstring("rank 0 waits in all_reduce, for rank 2: all_reduce of the team of "
                                                 "ranks 0, 2 (its 1st call)") &&
                                   ContainsSubstring("all_reduce of the team of ranks 0..2 (its 1st call)"));

    const exploration formed = explore(2, [](explored_communicator& comm) {
        std::array teams{allfold::subset(comm, allfold::rank_list{0, 1}),
                         allfold::subset(comm, allfold::rank_list{0, 1})};
        allfold::barrier(*teams[comm.rank() == 0 ? 0 : 1]);
    });
    CHECK_THAT(explain(formed),
               ContainsSubstring("for rank 1, which waits in another team of the same ranks: barrier of "
                                 "the team of ranks 0, 1 (its 1st call)"));

    const auto in_pair = [](auto sends) {
        return explain(explore(3, [&](explored_communicator& comm) {
            auto pair = allfold::subset(comm, allfold::rank_list{2, 1});
            int y = 0;
            if (!pair) return;
            if (pair->rank() == 0) sends(*pair);
            if (pair->rank() == 1) allfold::receive(*pair, y, from{0});
        }));
    };
    CHECK_THAT(in_pair([](auto& pair) { allfold::send(pair, std::array{1, 2, 3}, to{1}); }),
               ContainsSubstring("rank 1: receive: rank 1 has room for 1 element, but rank 0 sent 3, with tag 0 (ranks "
                                 "of the team): receive from rank 2 in the team of ranks 2, 1 (its 1st call)"));
    CHECK_THAT(
        in_pair([](auto& pair) { allfold::send(here(pair), 1, to{5}); }),
        ContainsSubstring("rank 2: send: destination rank 5 is not in [0, 2) (ranks of the team), in the team of "
                          "ranks 2, 1 (explore_reports_test.cpp:"));
    CHECK_THAT(in_pair([](auto&) {}),
               ContainsSubstring("rank 1 waits in receive, for rank 2, which has returned: receive from rank 2 in the "
                                 "team of ranks 2, 1 (its 1st call)"));
}

TEST_CASE("a message that is never received names its own call, also if it leaves in a later one, or not its rank") {
    using Catch::Matchers::ContainsSubstring;
    allfold::explore_options held;
    held.sends = allfold::standard_sends::held;
    const exploration late = explore(
        3,
        [](explored_communicator& comm) {
            int x = 1, y = 0;
            if (comm.rank() == 1)
                if (auto first = allfold::try_probe(comm, from{0}, tag{1})) allfold::receive(*first, y);
            if (comm.rank() == 2) allfold::send(comm, x, to{0});
            if (comm.rank() != 0) return;
            auto withheld = allfold::send.start(comm, x, to{1}, tag{1});
            auto behind = allfold::send.start(comm, x, to{1}, tag{2});
            allfold::send(comm, x, to{2}, tag{3});
            allfold::receive(comm, y, from{2});
            if (!withheld.cancel()) withheld.wait();
            behind.wait();
        },
        held);
    INFO(explain(late));
    REQUIRE(!late.ok());
    for (const allfold::finding& each : late.findings())
        CHECK_THAT(each.text, ContainsSubstring("rank 2 is never received: send to rank 2, tag 3 (its 3rd call)") &&
                                  !ContainsSubstring("is never received: receive"));
    const exploration own =
        explore(2, [](explored_communicator& comm) { allfold::send(comm, 1, to{comm.rank()}); }, held);
    INFO(explain(own));
    REQUIRE(own.findings().size() == 1);
    CHECK_THAT(own.first().text, ContainsSubstring("from rank 1 to rank 1 is never received: send to rank 1 (its 1st"));
}
