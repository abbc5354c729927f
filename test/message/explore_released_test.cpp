// SPDX-License-Identifier: BSL-1.0
#include <cstddef>
#include <vector>

#include "allfold/analysis/explore.hpp"
#include "allfold/analysis/explored_communicator.hpp"
#include "allfold/collective/subset.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/message.hpp"
#include "allfold/transport/rank_list.hpp"
#include "test/support/catch.hpp"

/// @file
/// Sends that nobody waits for: the copies of buffered ones, and released ones.

using allfold::exploration;
using allfold::explore;
using allfold::explored_communicator;
using allfold::from;
using allfold::tag;
using allfold::to;
using allfold::verdict;

TEST_CASE("a buffered send never waits, but its copy may stay in the buffer until it is received") {
    const auto exchange = [](bool detaches_first, std::size_t sends) {
        return explore(2, [=](explored_communicator& comm) {
            const int other = 1 - comm.rank();
            std::vector<int> got(sends);
            allfold::attach_buffer(comm, sizeof(int));
            for (std::size_t i = 0; i < sends; ++i) allfold::send(comm, 5, to{other}, allfold::mode::buffered);
            if (detaches_first) allfold::detach_buffer(comm);
            for (int& each : got) allfold::receive(comm, each, from{other});
            if (!detaches_first) allfold::detach_buffer(comm);
            return got;
        });
    };
    const exploration sound = exchange(false, 1), waits = exchange(true, 1), full = exchange(false, 2);
    INFO(explain(sound) << explain(waits) << explain(full));
    CHECK((sound.ok() && sound.complete()));
    REQUIRE((waits.findings().size() == 1 && full.findings().size() == 1));
    CHECK(waits.first().what == verdict::deadlock_unless_held);
    CHECK_THAT(waits.first().text, Catch::Matchers::ContainsSubstring("rank 1 waits in buffered send, for rank 0"));
    CHECK(full.first().what == verdict::failed);
    CHECK_THAT(full.first().text, Catch::Matchers::ContainsSubstring("but only 0 of the 4 attached bytes are free"));
}

TEST_CASE("a buffer through which something was sent is detached before its communicator ends") {
    const auto findings_of = [](bool sends, bool detaches) {
        return explore(2, [=](explored_communicator& comm) {
            int x = 0;
            if (comm.rank() == 1) return sends ? static_cast<void>(allfold::receive(comm, x, from{0})) : void();
            allfold::attach_buffer(comm, 100);
            if (sends) allfold::send(comm, x, to{1}, allfold::mode::buffered);
            if (detaches) allfold::detach_buffer(comm);
        });
    };
    CHECK((findings_of(true, true).ok() && findings_of(false, false).ok()));
    const exploration left = findings_of(true, false);
    INFO(explain(left));
    REQUIRE(left.findings().size() == 1);
    CHECK(left.first().what == verdict::never_completed);
    CHECK_THAT(left.first().text,
               Catch::Matchers::StartsWith("rank 0: buffered send: its communicator ended before it was done"));
}

TEST_CASE("whether a released send is done when its communicator ends may depend on which of two answers comes first") {
    const exploration found = explore(2, [](explored_communicator& comm) {
        static const int seven = 7;
        int x = 0, y = 0;
        auto team = allfold::subset(comm, allfold::rank_list({0, 1}));
        if (comm.rank() == 0) {
            allfold::receive(comm, x, from{allfold::any});
            allfold::send(*team, x, to{1});
            auto sent = allfold::send.start(comm, x, to{1}, tag{1});
            allfold::receive(comm, y, from{1}, tag{1});
            return sent.wait();
        }
        allfold::send.start(comm, seven, to{0}).release();
        allfold::receive(*team, x, from{allfold::any});
        allfold::receive(comm, x, from{allfold::any}, tag{1});
        auto sent = allfold::send.start(comm, x, to{0}, tag{1});
        sent.wait();
    });
    INFO(explain(found));
    REQUIRE((found.findings().size() == 1 && found.complete()));
    CHECK(found.first().what == verdict::never_completed);
    CHECK_THAT(found.first().text, Catch::Matchers::ContainsSubstring("send to rank 0 (its 1st call)"));
}

TEST_CASE("a send that the program cancels only where sends wait deadlocks where they are held too") {
    const auto found = explore(2, [](explored_communicator& comm) {
        int x = 0, y = 0;
        if (comm.rank() == 1) {
            allfold::send(comm, x, to{0}, tag{1});  // this one may wait
            return static_cast<void>(allfold::receive(comm, y, from{0}));
        }
        auto sent = allfold::send.start(comm, x, to{1});
        if (!sent.done()) static_cast<void>(sent.cancel());
        allfold::receive(comm, y, from{1}, tag{1});
        sent.wait();
    });
    INFO(explain(found));
    REQUIRE((found.findings().size() == 1 && found.complete()));
    CHECK(found.first().what == verdict::deadlock);
}
