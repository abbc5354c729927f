// SPDX-License-Identifier: BSL-1.0
#include <stdexcept>
#include <vector>

#include "allfold/message.hpp"
#include "allfold/transport/self.hpp"
#include "test/message/support/every_transport.hpp"
#include "test/support/catch.hpp"
#include "test/support/ranks.hpp"

using namespace test;

TEST_CASE("no rank waits for one that has returned or failed") {
    for (const auto& tuning : {allfold::thread_tuning{}, noticing}) {
        // The rank that a receive names, or all that `any` could mean, returned after sending one message each.
        const auto named = outcomes_on_ranks(
            3,
            [](auto& comm) {
                int x = 1;
                if (comm.rank() != 0) return send(comm, x, to{0});
                receive(comm, x, from{2});
                receive(comm, x, from{2});
            },
            tuning);
        REQUIRE(named[0].code == errc::peer_failed);
        CHECK(named[0].says("rank 2"));
        const auto whoever = outcomes_on_ranks(
            4,
            [](auto& comm) {
                std::vector<int> x(50000);
                if (comm.rank() != 0) return send(comm, x, to{0});
                for (int i = 0; i < 4; ++i) receive(comm, x, from{any});
            },
            tuning);
        REQUIRE(whoever[0].code == errc::peer_failed);
        CHECK(whoever[0].says("any rank"));
        const auto unread = outcomes_on_ranks(
            2,
            [](auto& comm) {
                std::vector<int> x(500000);
                if (comm.rank() == 0) send(comm, x, to{1}, mode::synchronous);
            },
            tuning);
        CHECK(unread[0].code == errc::peer_failed);
        const auto thrown = outcomes_on_ranks(
            3,
            [](auto& comm) {
                int x = 1;
                if (comm.rank() == 2) throw std::runtime_error("burnt");
                receive(comm, x, from{any});
            },
            tuning);
        CHECK(thrown[0].says("burnt"));
        CHECK(thrown[1].says("burnt"));
        using namespace std::chrono_literals;
        const auto late = outcomes_on_ranks(
            2,
            [](auto& comm) {
                int x = 1;
                if (comm.rank() == 0)
                    receive(comm, x, from{1}, allfold::deadline{10ms});
                else
                    receive(comm, x, from{0}, tag{3});
            },
            tuning);
        CHECK(late[0].code == errc::timeout);
        CHECK(!late[1].succeeded());
    }
    allfold::self alone;
    int x = 3, y = 0;
    operation own = send.start(alone, x, to{0}, mode::synchronous);
    receive(alone, y, from{any});
    own.wait();
    CHECK(y == 3);
    CHECK_THROWS_AS(receive(alone, y, from{any}), allfold::error);
}

TEST_CASE("abort ends a communicator for all its ranks, with a reason") {
    const auto outcomes = outcomes_on_ranks(3, [](auto& comm) {
        int x = 0;
        if (comm.rank() == 1) {  // and goes on
            const outcome own = outcome_of([&] { allfold::abort(comm, "no more paper"); });
            expect_error(own, errc::peer_failed, {"abort", "rank 1", "no more paper"});
        }
        receive(comm, x, from{2 - comm.rank()});
    });
    for (const outcome& each : outcomes) {
        CHECK(each.code == errc::peer_failed);
        CHECK(each.says("rank 1"));
        CHECK(each.says("no more paper"));
    }
}

TEST_CASE("a message in flight that is started again, or whose communicator ends, says whom it waits for") {
    allfold::thread_world world(2);
    int x = 0;
    std::vector<int> y(50000);
    std::vector<operation> all;
    persistent again;
    {
        auto comm = world.communicator(0);
        again = send.prepare(comm, y, to{1}, mode::synchronous);
        again.start();
        expect_error(outcome_of([&] { again.start(); }), errc::bad_argument,
                     {"rank 0 starts a prepared operation that is still in flight and waits for rank 1"});
        all.push_back(receive.start(comm, x, from{1}));
        all.push_back(send.start(comm, y, to{1}, mode::synchronous));
    }
    for (operation& each : all)
        expect_error(outcome_of([&] { each.wait(); }), errc::bad_argument,
                     {"its communicator ended before it was done: rank 0 waits for rank 1"});
    expect_error(outcome_of([&] { again.wait(); }), errc::bad_argument,
                 {"ended before it was done: rank 0 waits for rank 1"});
    SUCCEED();
}
