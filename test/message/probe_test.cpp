// SPDX-License-Identifier: BSL-1.0
#include <atomic>
#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/barrier.hpp"
#include "allfold/message.hpp"
#include "test/message/support/every_transport.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"

using namespace test;

TEST_CASE("a probe hands out a message that nobody else gets") {
    on_all_transports(2, [](auto& comm) {
        if (comm.rank() == 0) {
            std::deque<std::vector<int>> all;
            std::vector<operation> sent;
            for (int i = 1; i <= 6; ++i) {
                all.emplace_back(static_cast<std::size_t>(i * 3000), i);
                sent.push_back(send.start(comm, all.back(), to{1}, tag{i % 2}));
            }
            wait_all(sent);
        } else {
            std::vector<int> y(20000);
            message first = probe(comm, from{any}, tag{1});
            expect(first.about() == status{0, 1, 3000, false}, "what a probe tells");
            expect(receive(comm, y, from{0}, tag{1}).elements == 9000, "the one after it");
            {
                const message unread = probe(comm, from{0}, tag{any});
            }  // which puts the message back
            message second;
            while (!second)
                if (auto found = try_probe(comm, from{any}, tag{0})) second = std::move(*found);
            expect(second.about().elements == 6000, "put back at its old place");
            expect(!try_probe(comm, from{any}, tag{9}), "nothing to be found");
            status s;
            std::vector<int> exact(first.about().elements);
            s = receive(first, exact);
            expect(s.elements == 3000 && exact[0] == 1 && exact.back() == 1 && !first, "received late");
            expect(first.about() == status{0, 1, 3000, false}, "told afterwards too");
            expect_error(outcome_of([&] { receive(second, std::span<int>(static_cast<int*>(nullptr), 6000)); }),
                         errc::bad_argument, {"null pointer with a non-zero length"});
            expect(static_cast<bool>(second), "still to be received");
            operation last = receive.start(second, y);
            for (const int i : {4, 5, 6}) {
                const status each = receive(comm, std::span<int>(exact = std::vector<int>(18000)), from{0}, tag{any});
                expect(each == status{0, i % 2, static_cast<std::size_t>(i * 3000), false}, "the others");
            }
            last.wait();
            expect(y[5999] == 2, "the second one");
            expect_error(outcome_of([&] { receive(first, y); }), errc::bad_argument, {"already"});
        }
        allfold::barrier(comm);
    });
    SUCCEED();
}

TEST_CASE("try_probe finds a message, and makes progress on everything else in flight") {
    on_all_transports(2, [](auto& comm) {
        const auto look_for = [&](int label) {
            std::optional<message> found;
            while (!found) found = try_probe(comm, from{1}, tag{label});
            std::vector<int> y(found->about().elements);
            receive(*found, y);
            expect(y == std::vector<int>(y.size(), label), "what was sent");
        };
        std::vector<int> x(100000, 1);
        if (comm.rank() == 1) {
            send(comm, std::vector<int>(3, 5), to{0}, tag{5});
            allfold::all_reduce(comm, x, allfold::sum());
            send(comm, std::vector<int>(100000, 6), to{0}, tag{6});
        } else {
            look_for(5);
            operation sum = allfold::all_reduce.start(comm, x, allfold::sum());
            look_for(6);
            sum.wait();
        }
        expect(x == std::vector<int>(x.size(), 2), "the sum");
    });
    SUCCEED();
}

TEST_CASE("what a probe returns is received at once") {
    on_all_transports(2, [](auto& comm) {
        int x = 7 + comm.rank(), y = 0, z = 0;
        if (comm.rank() == 0) {
            send(comm, x, to{1});
            send(comm, x, to{1}, tag{1});
        } else {
            expect(receive(probe(comm, from{0}), y) == status{0, 0, 1, false} && y == 7, "a call");
            std::optional<message> found;
            while (!found) found = try_probe(comm, from{0}, tag{1});
            operation started = receive.start(*std::move(found), z);
            found.reset();
            started.wait();
            expect(z == 7, "a started one");
        }
        allfold::barrier(comm);
    });
    SUCCEED();
}

TEST_CASE("try_probe stores the status of what it finds") {
    on_all_transports(2, [](auto& comm) {
        std::vector<int> x(3);
        operation sent = send.start(comm, x, to{comm.rank()}, tag{4});
        status s{9, 9, 9, true};
        expect(!try_probe(comm, from{any}, tag{5}, status_in{s}) && s == status{9, 9, 9, true}, "nothing found");
        std::optional<message> found;
        while (!found) found = try_probe(comm, from{any}, tag{any}, status_in{s});
        expect(s == found->about() && s == status{comm.rank(), 4, 3, false}, "found");
        expect(try_probe(comm, from{none}, status_in{s}).has_value() && s == status{}, "from nobody");
        receive(*std::move(found), x);
        sent.wait();
    });
    SUCCEED();
}

TEST_CASE("a receive is cancelled or completed, never both") {
    on_all_transports(2, [](auto& comm) {
        for (int i = 0; i < 50; ++i) {
            int x = i, y = -1, z = -1;
            if (comm.rank() == 0) {
                send(comm, x, to{1}, tag{i});
            } else {
                status first;
                operation a = receive.start(comm, y, from{0}, tag{i}, status_in{first});
                operation b = receive.start(comm, z, from{any}, tag{i});
                const bool cancelled = a.cancel();
                a.wait();
                expect(first.cancelled == cancelled && !a.cancel(), "cancelled");
                if (cancelled) {
                    b.wait();
                    expect(y == -1 && z == i, "both");
                } else {
                    expect(y == i && b.cancel() && z == -1, "neither");
                }
            }
        }
        int sum = 1;
        operation collective = allfold::all_reduce.start(comm, sum, allfold::sum());
        expect(!collective.cancel(), "a collective");
        collective.wait();
    });
    SUCCEED();
}

TEST_CASE("a send is cancelled as long as nothing of it has left its rank, or completed") {
    for (const std::size_t n : {std::size_t{1}, std::size_t{100000}}) {
        std::atomic<int> left{-1};
        on_ranks(2, [&](auto& comm) {
            std::vector<int> x(n, 7), y(n);
            if (comm.rank() == 0) {
                constexpr int many = 300;
                std::vector<operation> sent;
                std::vector<status> told(many);
                for (std::size_t i = 0; i < many; ++i)
                    sent.push_back(send.start(comm, x, to{1}, tag{3}, status_in{told[i]}));
                int cancelled = 0;  // the other rank takes in none, and there is not room for all
                for (std::size_t i = many; i-- > 0 && sent[i].cancel();) {
                    ++cancelled;
                    expect(sent[i].done() && told[i].cancelled && !sent[i].cancel(), "cancelled");
                }
                expect(cancelled > 0 && cancelled < many, "some");
                left = many - cancelled;
                wait_all(sent);
                expect(!told[0].cancelled, "completed");
                send(comm, x, to{1}, tag{4});
                receive(comm, y, from{1});
                auto& office = allfold::detail::office_of(comm);
                expect(office.has_room(1, 64 * (allfold::detail::credit::max_held - 1)), "all room is free again");
            } else {
                while (left < 0) std::this_thread::yield();
                for (int i = 0; i < left; ++i) receive(comm, y, from{0}, tag{3});
                receive(comm, y, from{0}, tag{4});
                send(comm, x, to{0});
                expect(!try_probe(comm, from{any}, tag{any}) && y == x, "nothing else came");
            }
        });
    }
    SUCCEED();
}

TEST_CASE("a function called at the end of a cancelled receive waits for other messages") {
    on_all_transports(2, [](auto& comm) {
        std::vector<int> x(10000, 7), y(x.size()), z(x.size());
        if (comm.rank() == 0) {
            operation first = receive.start(comm, y, from{1}, tag{1});
            operation second = receive.start(comm, z, from{1}, tag{2});
            first.then([&] {
                send(comm, 1, to{1});
                second.wait();
            });
            expect(first.cancel() && first.done() && second.done() && z == x, "cancelled");
        } else {
            int word = 0;
            receive(comm, word, from{0});
            send(comm, x, to{0}, tag{2});
        }
    });
    SUCCEED();
}

TEST_CASE("what is released completes in the background; an operation that is none is done") {
    on_all_transports(2, [](auto& comm) {
        const int other = 1 - comm.rank();
        std::vector<int> x(100000, comm.rank()), y(100000, -1);
        status told{7, 7, 7, false};
        receive.start(comm, y, from{other}, tag{1}, status_in{told}).release();
        allfold::barrier(comm);  // a message that is already there at the release would be reported
        send.start(comm, x, to{other}, tag{1}, mode::synchronous).release();
        allfold::barrier(comm);
        int word = 0;
        exchange(comm, 5, to{other}, word, from{other}, mode::synchronous);  // arrives after it
        while (y.back() < 0) static_cast<void>(try_probe(comm, from{other}, tag{9}));
        expect(y == std::vector<int>(y.size(), other), "received");
        expect(told == status{7, 7, 7, false}, "nobody hears how");
        allfold::barrier(comm);
        operation over = send.start(comm, word, to{other});
        receive(comm, word, from{other});
        over.wait();
        over.release();
        over.release();
        operation nothing;
        nothing.wait();
        nothing.release();
        expect(nothing.done() && !nothing.cancel() && wait_any(std::span(&nothing, 1)) == 1, "nothing");
        if (comm.rank() == 1) receive(comm, word, from{0});  // rank 0 has been refused
        operation collective = allfold::all_reduce.start(comm, y, allfold::sum());
        if (comm.rank() == 0) {
            const outcome refused = outcome_of([&] { collective.release(); });
            expect_error(refused, errc::bad_argument, {"release: a collective is in flight"});
            send(comm, word, to{1});
        }
        collective.wait();
        expect(y == std::vector<int>(y.size(), 1), "a collective");
    });
    SUCCEED();
}
