// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/barrier.hpp"
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

TEST_CASE("a receive from any rank that is tested past its deadline is late, although one of the ranks has returned") {
    const auto outcomes = outcomes_on_ranks(3, [](auto& comm) {
        int x = 0;
        if (comm.rank() == 0) {
            operation late = receive.start(comm, x, from{any}, allfold::deadline{std::chrono::milliseconds(30)});
            while (!late.done()) std::this_thread::yield();
        } else if (comm.rank() == 2) {
            receive(comm, x, from{0});
        }
    });
    CHECK(outcomes[0].code == errc::timeout);
}

TEST_CASE("a rank that only tests a message learns that those who could send it have returned") {
    for (const auto& tuning : {allfold::thread_tuning{}, noticing})
        for (const from source : {from{1}, from{any}}) {
            const auto outcomes = outcomes_on_ranks(
                3,
                [&](auto& comm) {
                    int x = 0, y = 0;
                    if (comm.rank() != 0) return;
                    std::vector<operation> both;
                    both.push_back(receive.start(comm, x, from{comm.rank()}, tag{1}));  // that may still be sent
                    both.push_back(receive.start(comm, y, source));
                    while (!allfold::test_any(both)) std::this_thread::yield();
                },
                tuning);
            INFO(outcomes[0].text);
            REQUIRE(outcomes[0].code == errc::peer_failed);
            CHECK(outcomes[0].says("returned"));
        }
}

TEST_CASE("a rank does not wait for a message from itself that it cannot send any more") {
    for (const int size : {1, 3}) {
        const auto outcomes = outcomes_on_ranks(size, [&](auto& comm) {
            int x = 0, y = comm.rank();
            operation sent = send.start(comm, y, to{comm.rank()}, mode::synchronous);
            receive(comm, x, from{comm.rank()});
            sent.wait();
            expect(x == y, "another message");
            operation first = receive.start(comm, x, from{comm.rank()}, tag{1});
            first.then([&] { send(comm, y, to{comm.rank()}, tag{2}); });
            operation cause = send.start(comm, y, to{comm.rank()}, tag{1});
            receive(comm, x, from{comm.rank()}, tag{2});  // sent at the end of another one
            wait_all(first, cause);
            allfold::barrier(comm);
            receive(comm, x, size == 1 ? from{any} : from{comm.rank()});
        });
        INFO(outcomes[0].text);
        CHECK_FALSE(outcomes[0].succeeded());
        CHECK(std::any_of(outcomes.begin(), outcomes.end(), [](const auto& each) {
            return each.code == errc::bad_argument && each.says("waits for a message from itself");
        }));
    }
}

TEST_CASE("a rank does not wait for its own receive of a message that it cannot start any more") {
    for (const int size : {1, 3})
        for (const auto how : {mode::synchronous, mode::standard}) {
            const auto outcomes = outcomes_on_ranks(size, [&](auto& comm) {
                const int me = comm.rank();
                const std::vector<int> x(1 << 20, me);  // too long to be held
                std::vector<int> y(x.size());
                int z = 0;
                operation early = receive.start(comm, y, from{me});
                send(comm, x, to{me}, how);
                early.wait();
                expect(y == x, "a receive that has been started before");
                operation first = receive.start(comm, z, from{me}, tag{1}), second;
                first.then([&] { second = receive.start(comm, y, from{me}, tag{2}); });
                operation cause = send.start(comm, me, to{me}, tag{1}, mode::synchronous);
                send(comm, x, to{me}, tag{2}, how);  // received at the end of another one
                wait_all(first, second, cause);
                allfold::barrier(comm);
                send(comm, x, to{me}, how);
            });
            INFO(outcomes[0].text);
            CHECK_FALSE(outcomes[0].succeeded());
            CHECK(std::any_of(outcomes.begin(), outcomes.end(), [](const auto& each) {
                return each.code == errc::bad_argument && each.says("has started no receive");
            }));
        }
}

TEST_CASE("abort ends a communicator for all its ranks, with a reason") {
    const auto program = [](auto& comm) {
        int x = 0;
        if (comm.rank() == 1) {  // and goes on
            const outcome own = outcome_of([&] { allfold::abort(comm, "no more paper"); });
            expect_error(own, errc::peer_failed, {"abort", "rank 1", "no more paper"});
        }
        receive(comm, x, from{2 - comm.rank()});
    };
    const auto near = outcomes_on_ranks(3, program);
    const auto far = outcomes_on_ranks(
        3,
        [&](auto& base) {
            remote comm(base);
            program(comm);
        },
        roomy);
    for (const auto& outcomes : {near, far})
        for (const outcome& each : outcomes) {
            CHECK(each.code == errc::peer_failed);
            CHECK(each.says("rank 1"));
            CHECK(each.says("no more paper"));
        }
}

TEST_CASE("of operations that are done, one that has failed is told first, and the others in the next call") {
    const auto check = [](auto ask) {
        on_all_transports(2, [&](auto& comm) {
            const std::vector<int> x(10, 7);
            if (comm.rank() == 0) {
                send(comm, x, to{1}, tag{1});
                send(comm, x, to{1}, tag{2});
            } else {
                std::vector<int> y(10), z(5);
                std::vector<operation> both;
                both.push_back(receive.start(comm, y, from{0}, tag{1}));
                both.push_back(receive.start(comm, z, from{0}, tag{2}));
                int ended = 0;
                for (operation& each : both) each.then([&ended](const std::exception_ptr&) { ++ended; });
                while (ended < 2) static_cast<void>(try_probe(comm, from{0}, tag{3}));  // asks neither
                expect_error(outcome_of([&] { static_cast<void>(ask(both)); }), errc::truncated, {"tag 2"});
                expect(ask(both) == std::vector<std::size_t>{0}, "the other one");
                expect(y == x && ask(both).empty(), "and nothing else");
            }
            allfold::barrier(comm);
        });
    };
    check([](auto& all) { return allfold::wait_some(all); });
    check([](auto& all) { return allfold::test_some(all); });
    SUCCEED();
}

TEST_CASE("waiting for all operations ends with all of them, although the first one fails") {
    const auto check = [](auto wait) {
        on_all_transports(2, [&](auto& comm) {
            const std::vector<int> x(50000, 7);
            int failed = 0;
            if (comm.rank() == 0) {
                send(comm, x, to{1}, tag{1});
                receive(comm, failed, from{1});
                send(comm, x, to{1}, tag{2});
            } else {
                std::vector<int> y(5), z(x.size());
                std::vector<operation> both;
                both.push_back(receive.start(comm, y, from{0}, tag{1}));
                both.push_back(receive.start(comm, z, from{0}, tag{2}));
                both[0].then([&](const std::exception_ptr& why) { send(comm, why ? 1 : 0, to{0}); });
                expect_error(outcome_of([&] { wait(both); }), errc::truncated, {"tag 1"});
                expect(z == x && allfold::wait_any(both) == 2, "one is left in flight");
            }
            allfold::all_reduce(comm, failed, allfold::sum());
            expect(failed == 1, "the communicator goes on");
        });
    };
    check([](auto& all) { allfold::wait_all(all); });
    check([](auto& all) { allfold::wait_all(all[0], all[1]); });
    check([](auto& all) {
        while (!allfold::test_all(all)) std::this_thread::yield();
    });
    SUCCEED();
}

TEST_CASE("a send that an exception destroys before anything of it has left its rank is sent no more") {
    std::atomic<bool> is_over = false;
    on_ranks(2, [&](auto& comm) {
        if (comm.rank() == 1) {
            while (!is_over) std::this_thread::yield();
            return;
        }
        auto& office = allfold::detail::office_of(comm);
        const auto is_queued = [&] { return !office.may_post_at_once(1, 1, [] { return false; }); };
        try {
            const std::vector<int> x(10, 7);
            std::vector<operation> sent;  // the other rank takes in none, and there is not room for all
            for (int i = 0; i < 300; ++i) sent.push_back(send.start(comm, x, to{1}));
            throw std::runtime_error(is_queued() ? "while some are queued" : "although none is queued");
        } catch (const std::runtime_error& thrown) {  // which has destroyed x as well
            is_over = true;
            expect(std::string(thrown.what()) == "while some are queued", thrown.what());
            expect(!is_queued(), "still queued");
        }
    });
    SUCCEED();
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
