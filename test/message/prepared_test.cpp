// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "allfold/collective/barrier.hpp"
#include "allfold/message.hpp"
#include "test/message/support/every_transport.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"

using namespace test;

// Were they larger, starting one would take twice as long, or longer.
static_assert(sizeof(allfold::detail::message_task<allfold::thread_communicator>) <=
              allfold::detail::task_memory::block_bytes);
static_assert(sizeof(allfold::detail::receive_note) <= 128);

TEST_CASE("prepared messages are started again and again; any, some and all are waited for") {
    on_all_transports(3, [](auto& comm) {
        const int left = (comm.rank() + 2) % 3, right = (comm.rank() + 1) % 3;
        std::vector<int> x(3000), y(3000), in_place(2);
        persistent both = exchange.prepare(comm, x, to{right}, y, from{left}, tag{2});
        persistent alone = exchange.prepare(comm, in_place, to{left}, from{right});
        std::vector<persistent> halves;
        std::vector<int> out(5), in(5);
        halves.push_back(send.prepare(comm, out, to{right}, mode::synchronous));
        halves.push_back(receive.prepare(comm, in, from{left}));
        for (int i = 0; i < 20; ++i) {
            std::fill(x.begin(), x.end(), i + comm.rank());
            std::fill(in_place.begin(), in_place.end(), comm.rank());
            std::fill(out.begin(), out.end(), i + comm.rank());
            both.start();
            expect_error(outcome_of([&] { both.start(); }), errc::bad_argument, {"exchange", "in flight"});
            alone();
            expect(in_place[1] == right, "in place");
            start_all(halves);
            std::size_t ended = 0;
            if (i % 3 == 0)
                for (; wait_any(halves) < 2; ++ended) {
                }
            else if (i % 3 == 1)
                for (std::vector<std::size_t> some; !(some = wait_some(halves)).empty();) ended += some.size();
            else
                for (ended = 2; !test_all(halves);) std::this_thread::yield();
            expect(ended == 2 && in[4] == i + left, "halves");
            both.wait();
            expect(y[2999] == i + left, "both");
        }
    });
    SUCCEED();
}

TEST_CASE("what has ended at its start is told once, and at the end of one message another one can be waited for") {
    on_all_transports(2, [](auto& comm) {
        const int other = 1 - comm.rank();
        int x = comm.rank(), y = 0, z = 0;
        for (int i = 0; i < 20; ++i) {
            std::array<operation, 2> sends;
            for (operation& each : sends) each = send.start(comm, x, to{other});
            std::array<operation, 2> moved{std::move(sends[0]), std::move(sends[1])};
            expect(wait_any(sends) == 2, "nothing is left behind");
            if (i % 4 == 0)
                expect(wait_any(moved) + wait_any(moved) == 1, "each once");
            else if (i % 4 == 1)
                for (std::size_t ended = 0; ended < 2;) ended += wait_some(moved).size();
            else if (i % 4 == 2)
                while (test_any(moved) != std::size_t{2}) std::this_thread::yield();
            else
                moved[0].wait(), moved[1].wait();
            expect(wait_any(moved) == 2 && wait_some(moved).empty() && moved[0].done(), "and not again");
            receive(comm, y, from{other});
            receive(comm, y, from{other});
            expect(y == other, "data");

            if (comm.rank() == 1) {
                send(comm, x, to{0}, tag{1});
                receive(comm, y, from{0}, tag{3});
                send(comm, x, to{0}, tag{2});
                continue;
            }
            operation first = receive.start(comm, y, from{1}, tag{1});
            operation second = receive.start(comm, z, from{1}, tag{2});
            first.then([&] {
                send(comm, x, to{1}, tag{3});
                second.wait();
            });
            first.wait();
            expect(second.done() && z == 1, "the other one");
            z = 0;
        }
    });
    SUCCEED();
}

TEST_CASE("prepared in every mode, and tested for until they are done") {
    on_all_transports(2, [](auto& comm) {
        const int other = 1 - comm.rank();
        std::vector<int> x(100), y(100);
        attach_buffer(comm, 4000);
        std::vector<persistent> sends, receives;
        for (const mode how : {mode::standard, mode::buffered, mode::synchronous, mode::ready}) {
            sends.push_back(send.prepare(comm, x, to{other}, tag{static_cast<int>(how)}, how));
            receives.push_back(receive.prepare(comm, y, from{other}, tag{static_cast<int>(how)}));
        }
        for (int i = 0; i < 40; ++i) {
            const auto k = static_cast<std::size_t>(i % 4);
            std::fill(x.begin(), x.end(), comm.rank() + i);
            receives[k].start();
            allfold::barrier(comm);  // for the ready send
            sends[k].start();
            std::array<persistent, 2> both{std::move(receives[k]), std::move(sends[k])};
            std::size_t ended = 0;
            while (ended < 2) {
                if (i % 8 < 4) {
                    ended += test_some(both).size();
                } else if (const auto one = test_any(both)) {
                    expect(*one < 2, "one of them");
                    ++ended;
                }
                std::this_thread::yield();
            }
            expect(test_some(both).empty() && test_any(both) == std::size_t{2}, "each once");
            receives[k] = std::move(both[0]);
            sends[k] = std::move(both[1]);
            expect(y == std::vector<int>(100, other + i), "data");
        }
        detach_buffer(comm);
        std::vector<persistent> none(2);
        expect_error(outcome_of([&] { none[0].start(); }), errc::bad_argument, {"empty"});
    });
    SUCCEED();
}

TEST_CASE("a prepared send throws where it finds no receive or no room, and starts again once there is") {
    on_all_transports(2, [](auto& comm) {
        std::vector<int> x(100000, 5), y(x.size()), z(x.size());
        const std::size_t bytes = x.size() * sizeof(int);
        if (comm.rank() == 0) {
            persistent ready = send.prepare(comm, x, to{1}, tag{1}, mode::ready);
            expect_error(outcome_of([&] { ready(); }), errc::bad_argument,
                         {"rank 0", "tag 1", "mode::ready", "rank 1 had not posted a receive"});
            persistent kept = send.prepare(comm, x, to{1}, tag{2}, mode::buffered);
            expect_error(outcome_of([&] { kept(); }), errc::bad_argument, {"only 0 of the 0 attached bytes are free"});
            attach_buffer(comm, bytes);
            kept();
            expect_error(outcome_of([&] { kept(); }), errc::bad_argument,
                         {"rank 0", "rank 1", "mode::buffered", "only 0 of the 400000 attached bytes are free"});
            send(comm, 1, to{1}, tag{3});
            allfold::barrier(comm);  // the receives have been posted
            ready();
            expect(detach_buffer(comm) == bytes, "detached");
            attach_buffer(comm, bytes);
            x.assign(x.size(), 6);
            kept();
            detach_buffer(comm);
        } else {
            int word = 0;
            receive(comm, word, from{0}, tag{3});  // a rank in a collective need not look at messages
            operation first = receive.start(comm, x, from{0}, tag{1});
            operation second = receive.start(comm, y, from{0}, tag{2});
            operation third = receive.start(comm, z, from{0}, tag{2});
            allfold::barrier(comm);
            wait_all(first, second, third);
            expect(x == std::vector<int>(x.size(), 5) && y == x, "data");
            expect(z == std::vector<int>(z.size(), 6), "the second start");
        }
    });
    SUCCEED();
}

TEST_CASE("a buffered send ends at once, up to what is attached") {
    on_all_transports(2, [](auto& comm) {
        std::vector<int> x(100000, 3), y(100000);
        const std::size_t bytes = x.size() * sizeof(int);
        if (comm.rank() == 0) {
            attach_buffer(comm, 2 * bytes);
            send(comm, x, to{1}, mode::buffered);
            expect(send.start(comm, x, to{1}, mode::buffered).done(), "waits");
            std::fill(x.begin(), x.end(), 9);
            const outcome full = outcome_of([&] { send(comm, x, to{1}, mode::buffered); });
            expect_error(full, errc::bad_argument,
                         {"rank 0", "rank 1", "mode::buffered", "only 0 of the 800000 attached bytes are free"});
            expect_error(outcome_of([&] { attach_buffer(comm, 1); }), errc::bad_argument,
                         {"already attached a buffer"});
            allfold::barrier(comm);
            expect(detach_buffer(comm) == 2 * bytes, "detached");
        } else {
            allfold::barrier(comm);
            for (int i = 0; i < 2; ++i) {
                receive(comm, y, from{0});
                expect(y == std::vector<int>(y.size(), 3), "what it was when it was sent");
            }
        }
    });
    SUCCEED();
}

TEST_CASE("who tries a buffered send again and again finds room once what is kept has been received") {
    on_all_transports(2, [](auto& comm) {
        std::vector<int> x(100000, 3);
        if (comm.rank() == 0) {
            attach_buffer(comm, x.size() * sizeof(int));
            for (int sent = 0; sent < 3;) {
                const outcome tried = outcome_of([&] { send(comm, x, to{1}, mode::buffered); });
                expect(tried.succeeded() || tried.code == errc::bad_argument, "no room");
                sent += tried.succeeded() ? 1 : 0;
            }
            detach_buffer(comm);
        } else {
            for (int i = 0; i < 3; ++i) {
                x.assign(x.size(), 0);
                receive(comm, x, from{0});
                expect(x == std::vector<int>(x.size(), 3), "each");
            }
        }
    });
    SUCCEED();
}

TEST_CASE("while a buffer is detached a function at the end of an operation may still send through it") {
    std::atomic<bool> has_all{false};
    on_ranks(2, [&](auto& comm) {
        const std::vector<int> x(100000, 3);
        std::vector<int> y(x.size());
        if (comm.rank() == 0) {
            attach_buffer(comm, 2 * x.size() * sizeof(int));
            operation asked = receive.start(comm, y, from{1});
            asked.then([&] { send(comm, x, to{1}, mode::buffered); });
            send(comm, x, to{1}, mode::buffered);
            while (!has_all) std::this_thread::yield();  // so that both end in the same pass
            detach_buffer(comm);
            asked.wait();
        } else {
            receive(comm, y, from{0});
            operation answer = send.start(comm, x, to{0});
            has_all = true;
            receive(comm, y, from{0});
            answer.wait();
        }
    });
    SUCCEED();
}

TEST_CASE("buffered sends by the thousand come in their order, and then there is room again") {
    on_all_transports(2, [](auto& comm) {
        constexpr int many = 3000;
        if (comm.rank() == 0) {
            attach_buffer(comm, many * sizeof(int));
            for (int i = 0; i < many; ++i) send(comm, i, to{1}, mode::buffered);
            allfold::barrier(comm);
            allfold::barrier(comm);
            send(comm, many, to{1}, mode::buffered);
            expect(detach_buffer(comm) == many * sizeof(int), "detached");
        } else {
            allfold::barrier(comm);
            int x = -1;
            for (int i = 0; i < many; ++i) {
                receive(comm, x, from{0});
                expect(x == i, "in their order");
            }
            allfold::barrier(comm);
            receive(comm, x, from{0});
            expect(x == many, "the last one");
        }
    });
    SUCCEED();
}

TEST_CASE("a prepared message starts again although a function at its end has thrown") {
    on_all_transports(2, [](auto& comm) {
        int x = 0;
        persistent again = comm.rank() == 0 ? send.prepare(comm, x, to{1}) : receive.prepare(comm, x, from{0});
        for (int start = 1; start <= 3; ++start) {
            if (comm.rank() == 0) x = start;
            again.start();
            outcome told;
            if (start == 1)  // called at once if it is done already
                told = outcome_of([&] { again.then([] { throw std::runtime_error("boom"); }); });
            const outcome at_end = outcome_of([&] { again.wait(); });
            if (told.succeeded()) told = at_end;
            expect(told.text == (start == 1 ? "boom" : ""), "what is thrown: " + told.text);
            expect(x == start, "what is sent");
        }
    });
    SUCCEED();
}
