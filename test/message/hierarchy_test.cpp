// SPDX-License-Identifier: BSL-1.0
#include "allfold/transport/hierarchy.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/barrier.hpp"
#include "allfold/collective/broadcast.hpp"
#include "allfold/collective/subset.hpp"
#include "allfold/collective/sync.hpp"
#include "allfold/message.hpp"
#include "allfold/transport/forwarding.hpp"
#include "test/message/programs.hpp"
#include "test/message/support/every_transport.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/sanitized.hpp"

// The other tests in this folder run on hierarchies too, as on all transports. Over MPI: test/mpi/messages.cpp.

using namespace test;
using namespace std::chrono_literals;

namespace {

/// Runs `fn` on two processes of two threads, and returns how each of these four ranks ended.
template <class Fn>
std::vector<outcome> outcomes_of_threads(Fn fn) {
    std::vector<outcome> all(4);
    static_cast<void>(outcomes_on_ranks(2, [&](auto& across) {
        allfold::run(across, 2, [&](auto& comm) {
            try {
                allfold::barrier(comm);  // otherwise a process may learn of a failure before it has begun
                fn(comm);
            } catch (...) {
                all[static_cast<std::size_t>(comm.rank())] = outcome_of_exception();
                throw;
            }
        });
    }));
    return all;
}

}  // namespace

TEST_CASE("random programs of messages and collectives between any threads of any processes") {
    const unsigned first = std::random_device{}();
    for (unsigned seed = first; seed < first + fewer_if_sanitized(3U, 1U); ++seed) {
        INFO("seed " << seed);
        std::mt19937 random(seed);
        for (const int size : {4, 6}) {
            const std::vector<step_of_program> program = random_messages(random, size, 150);
            REQUIRE_NOTHROW(on_hierarchies(size, [&](auto& comm) { run_program(comm, program, seed); }));
        }
    }
}

TEST_CASE("every rank of a hierarchy gets a message of every other one, whichever comes first") {
    on_hierarchies(6, [](auto& comm) {
        for (int turn = 0; turn < fewer_if_sanitized(20, 6); ++turn) {
            int total = 1;
            operation sum = allfold::all_reduce.start(comm, total, allfold::sum());
            std::vector<operation> sent;
            const std::vector<int> x(turn % 2 == 0 ? 3 : 20000, comm.rank());
            for (int r = 0; r < comm.size(); ++r)
                sent.push_back(send.start(comm, x, to{r}, tag{turn}, turn % 3 == 0 ? mode::synchronous : mode()));
            std::vector<char> heard(6);
            std::vector<int> y(x.size());
            for (int i = 0; i < comm.size(); ++i) {
                const status s = receive(comm, y, from{any}, tag{turn});
                expect(y == std::vector<int>(x.size(), s.source), "another message");
                heard[static_cast<std::size_t>(s.source)] = 1;
            }
            expect(heard == std::vector<char>(6, 1), "each once");
            wait_all(sent);
            sum.wait();
            expect(total == 6, "sum");
        }
    });
    SUCCEED();
}

TEST_CASE("messages in teams of a hierarchy, in the hierarchy, and through a decorator do not mix") {
    on_hierarchies(4, [](auto& comm) {
        allfold::forwarding through(comm);
        const auto turned = allfold::subset(comm, allfold::rank_list({3, 2, 1, 0}));
        allfold::relayed_communicator& mine = *turned;
        const auto around = [](auto& ranks, auto check) {
            const int right = (ranks.rank() + 1) % 4, left = (ranks.rank() + 3) % 4;
            for (const std::size_t n : std::vector<std::size_t>{1, 1000, 100000}) {
                const std::vector<int> x(n, ranks.rank());
                std::vector<int> y(n, -1);
                operation sent = send.start(ranks, x, to{right});
                check();
                receive(ranks, y, from{any}, tag{any});
                sent.wait();
                expect(y == std::vector<int>(n, left), "from the left");
            }
        };
        around(mine, [&] { around(comm, [&] { expect(!try_probe(through, from{any}, tag{9}), "nothing"); }); });
        around(through, [] {});
        allfold::barrier(mine);
    });
    SUCCEED();
}

TEST_CASE("the first thread of a process moves messages while its end of a team waits for who still reads there") {
    on_ranks(2, [](auto& across) {
        allfold::run(across, 2, [](auto& comm) {
            int word = comm.rank();
            std::vector<int> x(100000, comm.rank());
            {
                const auto first_two = allfold::subset(comm, allfold::rank_list({0, 1}));
                if (comm.rank() == 1) receive(comm, word, from{2});
                if (first_two) allfold::broadcast(*first_two, x, allfold::root{0}, allfold::out_sync::none);
            }
            if (comm.rank() == 2) {
                std::this_thread::sleep_for(20ms);  // until rank 0 waits in the destructor of its end
                send(comm, word, to{1});
            }
            allfold::barrier(comm);
            expect(comm.rank() > 1 || x.back() == 0, "broadcast");
            expect(comm.rank() != 1 || word == 2, "received");
        });
    });
    SUCCEED();
}

TEST_CASE("some ranks of a hierarchy send messages, while others never do, and wait for all or have returned") {
    for (const bool others_wait : {false, true})
        for (const int first : {0, 1})
            on_ranks(3, [&](auto& across) {
                allfold::run(across, 2, [&](auto& comm) {
                    const int thread = comm.rank() % 2, process = comm.rank() / 2;
                    for (int turn = 0; thread == first && turn < 50; ++turn) {
                        std::vector<int> y(turn % 2 == 0 ? 1 : 30000, process);
                        exchange(comm, y, to{(process + 1) % 3 * 2 + first}, from{(process + 2) % 3 * 2 + first});
                        expect(y.back() == (process + 2) % 3, "from the left");
                    }
                    if (others_wait) allfold::barrier(comm);
                });
            });
    SUCCEED();
}

TEST_CASE("waiting for a rank of a hierarchy that has returned fails, with or without messages") {
    for (const int gone : {0, 1, 2, 3})
        for (const bool had_talked : {false, true}) {
            const auto all = outcomes_of_threads([&](auto& comm) {
                std::vector<int> x(1000);
                for (int r = 0; had_talked && r < 4; ++r) {
                    if (comm.rank() == gone && r != gone) send(comm, x, to{r});
                    if (comm.rank() == r && r != gone) receive(comm, x, from{gone});
                }
                if (comm.rank() != gone) receive(comm, x, from{gone});
            });
            for (int r = 0; r < 4; ++r) {
                const outcome& each = all[static_cast<std::size_t>(r)];
                INFO(gone << " has gone, " << r << ": " << each.text);
                CHECK(each.succeeded() == (r == gone));
                if (r != gone) CHECK(each.code == errc::peer_failed);
            }
        }
    const auto silent = outcomes_of_threads([](auto& comm) {  // rank 3 returns, but its process does not
        int x = 0;
        if (comm.rank() == 1) receive(comm, x, from{3});
        if (comm.rank() == 2) receive(comm, x, from{1});
    });
    CHECK((silent[1].says("rank 3") && silent[1].says("returned") && !silent[2].succeeded()));
    const auto unread = outcomes_of_threads([](auto& comm) {
        const std::vector<int> x(1000);
        if (comm.rank() == 1) send(comm, x, to{3}, mode::synchronous);
    });
    CHECK((unread[1].code == errc::peer_failed && unread[1].says("rank 3")));
    const auto whoever = outcomes_of_threads([](auto& comm) {
        int x = 0;
        if (comm.rank() == 2) receive(comm, x, from{any});
    });
    CHECK((whoever[2].code == errc::peer_failed && whoever[2].says("all others have returned")));
}

TEST_CASE("a collective of a hierarchy does not wait for a process that has returned") {
    for (const int gone : {0, 1}) {
        const auto all = outcomes_of_threads([&](auto& comm) {
            if (comm.rank() / 2 != gone) allfold::barrier(comm);
        });
        for (int r = 0; r < 4; ++r) CHECK(all[static_cast<std::size_t>(r)].succeeded() == (r / 2 == gone));
        CHECK(all[static_cast<std::size_t>(2 - 2 * gone)].says("returned"));
    }
}

TEST_CASE("a rank of a hierarchy that throws releases all that wait, for messages or in collectives") {
    for (const int culprit : {0, 1, 2, 3})
        for (const bool in_collective : {false, true}) {
            const auto all = outcomes_of_threads([&](auto& comm) {
                int x = 0;
                if (comm.rank() == culprit) throw std::runtime_error("boom");
                if (in_collective && comm.rank() % 2 == 1) allfold::barrier(comm);
                receive(comm, x, from{any});
            });
            for (const outcome& each : all) {
                INFO("culprit " << culprit << ": " << each.text);
                CHECK(each.says("boom"));
            }
        }
}

TEST_CASE("a rank of a hierarchy that throws keeps no memory for what its neighbour has not read") {  // leaks show
    std::atomic<bool> has_aborted = false;
    const auto outcomes = outcomes_of_threads([&](auto& comm) {
        std::vector<int> x(100000);
        int ready = 0;
        if (comm.rank() == 0) {
            operation sent = send.start(comm, x, to{1});
            receive(comm, ready, from{1});  // and lends what has been asked for
            static_cast<void>(sent.done());
            try {
                const operation lost = std::move(sent);
                throw std::logic_error("on rank 0");
            } catch (const std::logic_error&) {
                has_aborted = true;
                throw;
            }
        } else if (comm.rank() == 1) {
            message found = probe(comm, from{0});
            operation there = receive.start(found, x);
            send(comm, ready, to{0});
            while (!has_aborted) std::this_thread::yield();
            there.wait();
        }
    });
    CHECK(outcomes[0].text == "on rank 0");
    CHECK(outcomes[1].code == errc::peer_failed);
}

TEST_CASE("a deadline of a message, or an abort, ends a hierarchy for all its ranks") {
    for (const int culprit : {0, 1, 2, 3}) {
        const auto late = outcomes_of_threads([&](auto& comm) {
            int x = 0;
            if (comm.rank() == culprit) receive(comm, x, from{any}, allfold::deadline{20ms});
            if (comm.rank() % 2 == 0) receive(comm, x, from{(comm.rank() + 1) % 4}, tag{3});
            allfold::barrier(comm);
        });
        for (const outcome& each : late) {
            INFO(each.text);
            CHECK(!each.succeeded());
        }
        CHECK(late[static_cast<std::size_t>(culprit)].code == errc::timeout);
        const auto ended = outcomes_of_threads([&](auto& comm) {
            int x = 0;
            if (comm.rank() == culprit) allfold::abort(comm, "no more paper");
            receive(comm, x, from{culprit});
        });
        for (const outcome& each : ended) {
            INFO(each.text);
            CHECK(each.says("no more paper"));
        }
    }
}

TEST_CASE("ranks that wait for a message hear why a hierarchy ends, also if its messages have not failed") {
    for (const int culprit : {0, 1, 3}) {
        const auto outcomes_after_messages = [culprit](auto end) {
            return outcomes_of_threads([&](auto& comm) {
                int x = 0, y = 0;
                exchange(comm, x, to{(comm.rank() + 1) % 4}, y, from{(comm.rank() + 3) % 4});
                if (comm.rank() == culprit) end(comm);
                receive(comm, y, from{culprit}, tag{7});
            });
        };
        for (const outcome& each : outcomes_after_messages([](auto&) { throw std::runtime_error("boom"); })) {
            INFO("culprit " << culprit << ": " << each.text);
            CHECK(each.says("boom"));
        }
        const auto be_late = [](auto& comm) { allfold::barrier(comm, allfold::deadline{20ms}); };
        for (const outcome& each : outcomes_after_messages(be_late)) {
            INFO("culprit " << culprit << ": " << each.text);
            CHECK((each.code == errc::timeout && each.says("the deadline of rank")));
        }
    }
}

TEST_CASE("a message of a hierarchy that its rank leaves in flight is an error") {
    std::vector<int> y(4000);
    operation left;
    const auto all = outcomes_of_threads([&](auto& comm) {
        if (comm.rank() == 1) left = receive.start(comm, y, from{3});
        if (comm.rank() == 2) receive(comm, y, from{1});
    });
    CHECK_THROWS_AS(left.wait(), allfold::error);
    CHECK(!all[2].succeeded());
}
