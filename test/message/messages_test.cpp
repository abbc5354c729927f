// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/barrier.hpp"
#include "allfold/data/tensor_view.hpp"
#include "allfold/message.hpp"
#include "allfold/transport/detail/channel.hpp"
#include "allfold/transport/traced.hpp"
#include "test/message/programs.hpp"
#include "test/message/support/every_transport.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/sanitized.hpp"

using namespace test;

TEST_CASE("a message arrives, whatever its length, its mode, and who waits for whom") {
    on_all_transports(2, [](auto& comm) { check_every_mode(comm); });
    on_ranks(2, [](auto& comm) { check_every_mode(comm); }, scattered);
    SUCCEED();
}

TEST_CASE("messages of one rank under one tag come in their order, whatever comes in between") {
    on_all_transports(3, [](auto& comm) {
        constexpr int rounds = 200;
        if (comm.rank() != 0) {
            std::vector<std::vector<int>> all;
            std::vector<operation> sent;
            for (int i = 0; i < rounds; ++i) {
                all.emplace_back(static_cast<std::size_t>(1 + i % 7 * 300), i);
                sent.push_back(
                    send.start(comm, all.back(), to{0}, tag{i % 2}, i % 5 == 0 ? mode::synchronous : mode()));
            }
            allfold::wait_all(sent);
        } else {
            std::vector<int> y(2000);
            std::array<std::array<int, 2>, 3> next{{{0, 1}, {0, 1}, {0, 1}}};
            const auto check = [&](const status& s) {
                int& expected = next[static_cast<std::size_t>(s.source)][static_cast<std::size_t>(s.tag)];
                expect(y[0] == expected && s.elements == static_cast<std::size_t>(1 + expected % 7 * 300), "order");
                expected += 2;
            };
            for (int i = 0; i < rounds / 2; ++i) check(receive(comm, y, from{2}, tag{1}));
            for (int i = 0; i < rounds / 2; ++i) check(receive(comm, y, from{any}, tag{0}));
            for (int i = 0; i < rounds; ++i) check(receive(comm, y, from{any}, tag{any}));
        }
        int total = 1;  // and a collective does not mix with them
        allfold::all_reduce(comm, total, allfold::sum());
        expect(total == 3, "sum");
    });
    SUCCEED();
}

TEST_CASE("an empty message that waits for its receive has no place, and nothing is read there") {
    on_all_transports(2, [](auto& comm) {
        std::vector<int> nothing, one{7};
        send(comm, one, to{comm.rank()});
        receive(comm, one, from{comm.rank()});  // the memory that held it is reused
        auto sent = send.start(comm, nothing, to{comm.rank()}, mode::synchronous);
        expect(receive(comm, one, from{comm.rank()}).elements == 0, "empty");
        sent.wait();
    });
    SUCCEED();
}

TEST_CASE("a message goes to the receive that was started first, whichever of them are open") {
    on_all_transports(2, [](auto& comm) {
        const std::array<from, 3> sources{from{0}, from{any}, from{0}};
        const std::array<tag, 3> tags{tag{5}, tag{5}, tag{any}};
        std::array<int, 3> order{0, 1, 2};
        do {
            std::array<int, 3> y{-1, -1, -1};
            std::vector<operation> all;
            if (comm.rank() == 1)
                for (const int i : order) {
                    const auto k = static_cast<std::size_t>(i);
                    all.push_back(receive.start(comm, y[k], sources[k], tags[k]));
                }
            allfold::barrier(comm);
            if (comm.rank() == 0)
                for (int i = 0; i < 3; ++i) send(comm, i, to{1}, tag{5});
            wait_all(all);
            for (std::size_t i = 0; comm.rank() == 1 && i < 3; ++i)
                expect(y[static_cast<std::size_t>(order[i])] == static_cast<int>(i), "another order");
        } while (std::ranges::next_permutation(order).found);
    });
    SUCCEED();
}

TEST_CASE("what is too long, or of another type, is an error of its receive alone") {
    for (const std::size_t n : {std::size_t{20}, std::size_t{50000}})
        on_all_transports(2, [&](auto& comm) {
            std::vector<int> x(n, 7), y(n, -1);
            const std::span<int> shorter(y.data(), n / 2);
            if (comm.rank() == 0) {
                send(comm, x, to{1}, tag{5});
                send(comm, x, to{1}, tag{5}, mode::synchronous);
                send(comm, x, to{1}, tag{6});
            } else {
                const outcome cut = outcome_of([&] { receive(comm, shorter, from{0}, tag{5}); });
                expect_error(cut, errc::truncated, {"rank 1", "rank 0", "room for", "tag 5"});
                std::vector<float> z(n);
                const outcome other = outcome_of([&] { receive(comm, z, from{0}, tag{5}); });
                expect_error(other, errc::mismatch, {"rank 1", "float", "rank 0", "int"});
                expect(y == std::vector<int>(n, -1), "written");
                persistent again = receive.prepare(comm, y, from{0}, tag{6});
                again();
                expect(y == x, "the next one");
            }
            allfold::barrier(comm);
        });
    SUCCEED();
}

TEST_CASE("types of one name, as those of two translation units, do not overrun each other") {
    using ranks = allfold::thread_communicator;
    std::function<void(ranks&)> sends, receives;
    {
        struct piece {
            int all[40];
        };
        sends = [](ranks& comm) { send(comm, piece{}, to{1}); };
    }
    {
        struct piece {
            int all[1];
        };
        struct place {
            piece first{{7}};
            std::array<int, 60> behind{};
        };
        receives = [](ranks& comm) {
            place here;
            here.behind.fill(7);
            const outcome told = outcome_of([&] { receive(comm, here.first, from{0}); });
            expect_error(told, errc::mismatch, {"rank 1", "rank 0"});
            expect(here.first.all[0] == 7 && std::ranges::count(here.behind, 7) == 60, "the place is untouched");
        };
    }
    on_ranks(2, [&](ranks& comm) {
        for (int turn = 0; turn < 20; ++turn) {
            comm.rank() == 0 ? sends(comm) : receives(comm);
            allfold::barrier(comm);
        }
    });
    SUCCEED();
}

namespace {

void receive_another_local_type(allfold::thread_communicator& comm) {
    if (comm.rank() == 0) {
        struct item {
            float value;
        };
        send(comm, item{1.5f}, to{1});
    } else {
        struct item {
            int value;
        };
        item y{7};
        expect_error(outcome_of([&] { receive(comm, y, from{0}); }), errc::mismatch, {"item"});
        expect(y.value == 7, "received");
    }
}

}  // namespace

TEST_CASE("two types of one function that have the same name are different types") {
    on_ranks(2, [](auto& comm) { receive_another_local_type(comm); });
    SUCCEED();
}

TEST_CASE("arguments are checked before anything is sent") {
    on_all_transports(2, [](auto& comm) {
        int x = 1;
        const std::span<int> null(static_cast<int*>(nullptr), 3);
        expect_error(outcome_of([&] { send(comm, x, to{2}); }), errc::bad_rank, {"send", "rank 2", "[0, 2)"});
        expect_error(outcome_of([&] { receive(comm, x, from{-1}); }), errc::bad_rank, {"receive", "-1"});
        expect_error(outcome_of([&] { send(comm, x, to{0}, tag{-1}); }), errc::bad_argument, {"negative tag"});
        expect_error(outcome_of([&] { send(comm, x, to{0}, tag{any}); }), errc::bad_argument, {"tag{any}"});
        expect_error(outcome_of([&] { send(comm, null, to{0}); }), errc::bad_argument,
                     {"null pointer with a non-zero length"});
        expect_error(outcome_of([&] { receive(comm, null, from{any}); }), errc::bad_argument,
                     {"null pointer with a non-zero length"});
        expect_error(outcome_of([&] { send(comm, x, to{1 - comm.rank()}, mode::buffered); }), errc::bad_argument,
                     {"mode::buffered", "4 bytes", "0 of the 0 attached bytes"});
        struct huge {
            std::array<char, (std::size_t{1} << 32) + 4> all;
        };
        std::span<huge> none_of_those;
        expect_error(outcome_of([&] { send(comm, none_of_those, to{0}); }), errc::bad_argument, {"4 GiB or more"});
        expect_error(outcome_of([&] { receive(comm, none_of_those, from{0}); }), errc::bad_argument, {"4 GiB or more"});
        expect_error(outcome_of([&] { receive.start(comm, none_of_those, from{0}).wait(); }), errc::bad_argument,
                     {"4 GiB or more"});
        allfold::barrier(comm);
        expect(!try_probe(comm, from{any}, tag{any}), "something has been sent");
        // `none` is a peer like any other.
        send(comm, x, to{none});
        expect(receive(comm, x, from{none}) == status{}, "from nobody");
        exchange(comm, x, to{none}, from{none}, mode::synchronous);
        expect(!probe(comm, from{none}) && x == 1, "of nobody");
        allfold::barrier(comm);
    });
    SUCCEED();
}

TEST_CASE("an exchange sends under one tag and receives under another one, or any") {
    on_all_transports(2, [](auto& comm) {
        const int other = 1 - comm.rank();
        for (const std::size_t n : {std::size_t{1}, std::size_t{50000}})
            for (int turn = 0; turn < 3; ++turn) {
                std::vector<int> x(n, comm.rank()), y(n, -1);
                const tag own{comm.rank() + 1};
                const receive_tag theirs = turn == 1 ? receive_tag{any} : receive_tag{other + 1};
                const status found = turn == 2 ? exchange(comm, x, to{other}, from{other}, own, theirs)
                                               : exchange(comm, x, to{other}, y, from{other}, own, theirs);
                expect(found == status{other, other + 1, n, false}, "what came");
                expect((turn == 2 ? x : y) == std::vector<int>(n, other), "its elements");
            }
        int x = 1;
        expect_error(outcome_of([&] { exchange(comm, x, to{other}, from{other}, receive_tag{-3}); }),
                     errc::bad_argument, {"negative tag"});
        std::array<int, 5> both{1, 2, 3, 4, 5};
        const std::span left = std::span(both).first(3), right = std::span(both).last(3);
        expect_error(outcome_of([&] { exchange(comm, left, to{other}, right, from{other}); }), errc::overlap,
                     {"exchange: rank", "memory that it sends from"});
        exchange(comm, left, to{other}, right, from{none});
        expect_error(outcome_of([&] { exchange.start(comm, left, to{other}, right, from{other}).wait(); }),
                     errc::overlap, {"pass it once"});
    });
    SUCCEED();
}

TEST_CASE("a synchronous send ends when a receive has been matched, and no earlier") {
    on_all_transports(2, [](auto& comm) {
        for (const std::size_t n : {std::size_t{1}, std::size_t{50000}}) {
            std::vector<int> x(n, 3), y(n), z(n);
            int go = 0;
            if (comm.rank() == 0) {
                std::array<operation, 2> all{send.start(comm, x, to{1}, tag{1}, mode::synchronous),
                                             receive.start(comm, go, from{1}, tag{2})};
                for (int i = 0; i < 50; ++i) expect(!all[0].done() && !test_all(all), "done without a receive");
                send(comm, 1, to{1}, tag{2});
                all[1].wait();
                expect(!all[0].done() && !test_all(all), "done without a receive, when another one has been answered");
                expect(test_any(all) == std::nullopt, "told twice");
                send(comm, 2, to{1}, tag{2});
                wait_all(all);
                // Started together, they are sent in order.
                std::array<persistent, 2> again{send.prepare(comm, x, to{1}, tag{3}),
                                                send.prepare(comm, y, to{1}, tag{3}, mode::synchronous)};
                start_all(again);
                wait_all(again);
            } else {
                receive(comm, go, from{0}, tag{2});
                send(comm, go, to{0}, tag{2});
                receive(comm, go, from{0}, tag{2});
                receive(comm, z, from{0}, tag{1});
                expect(z == x, "what came");
                receive(comm, z, from{0}, tag{3});
                expect(z == x, "the first of two");
                receive(comm, z, from{0}, tag{3});
                expect(z == y, "the second of two");
            }
        }
    });
    SUCCEED();
}

TEST_CASE("a short send in any mode goes with its data") {
    on_all_transports(2, [](auto& comm) { check_data_comes_along(comm, 300); });
    SUCCEED();
}

TEST_CASE("a ready send needs its receive") {
    on_all_transports(2, [](auto& comm) {
        int x = 5 + comm.rank(), y = 0;
        if (comm.rank() == 0) {
            allfold::barrier(comm);
            send.start(comm, x, to{1}, tag{1}, mode::ready).wait();
            const outcome o = outcome_of([&] { send(comm, x, to{1}, tag{2}, mode::ready); });
            expect_error(o, errc::bad_argument, {"rank 0", "rank 1", "tag 2", "ready"});
            send(comm, x, to{1}, tag{3});
        } else {
            operation early = receive.start(comm, y, from{0}, tag{1});
            allfold::barrier(comm);
            early.wait();
            expect(y == 5, "ready");
            receive(comm, y, from{0}, tag{3});
        }
    });
    SUCCEED();
}

TEST_CASE("an exchange whose send fails has received, also where there are gaps") {
    on_all_transports(2, [](auto& comm) {
        std::array<int, 2> x{8, 9};
        std::array<int, 4> y{};
        if (comm.rank() == 0) {
            status found;
            const allfold::tensor<int, 1> with_gaps(y.data(), {2}, {2});
            const outcome o =
                outcome_of([&] { exchange(comm, x, to{1}, with_gaps, from{1}, mode::ready, status_in{found}); });
            expect_error(o, errc::bad_argument, {"ready"});
            expect(found.elements == 2 && y == std::array{8, 0, 9, 0}, "what has been received");
        } else {
            send(comm, x, to{0}, mode::synchronous);
        }
        allfold::barrier(comm);
    });
    SUCCEED();
}

TEST_CASE("a rank answers through a decorator that sends messages in another form") {
    std::atomic<int> step{0};
    const auto until = [&](int wanted) {
        while (step < wanted) std::this_thread::yield();
    };
    on_ranks(
        2,
        [&](allfold::thread_communicator& base) {
            remote comm(base);
            if (comm.rank() == 0) {
                until(1);
                const int x = 3;
                operation ready = send.start(comm, x, to{1}, mode::ready);
                step = 2;
                until(3);
                send(comm, 2.5, to{1}, tag{2});
                step = 4;
                allfold::barrier(comm);
                expect_error(outcome_of([&] { ready.wait(); }), errc::bad_argument, {"ready"});
            } else {
                const int x = 1;
                for (bool is_full = false; !is_full;) is_full = send.start(comm, x, to{0}, tag{1}).cancel();
                step = 1;
                until(2);
                expect(!try_probe(comm, from{0}, tag{1}), "nothing has come that could be received");
                step = 3;
                until(4);
                allfold::barrier(comm);
                double y = 0;
                receive(comm, y, from{0}, tag{2});
                expect(y == 2.5, "a message of another type");
            }
        },
        roomy);
    SUCCEED();
}

TEST_CASE("a decorator that sends messages in another form may end before it has answered") {
    struct ending : remote {
        using remote::remote;
        ~ending() { background().end(this); }
    };
    std::atomic<int> step{0};
    const auto until = [&](int wanted) {
        while (step < wanted) std::this_thread::yield();
    };
    on_ranks(
        2,
        [&](allfold::thread_communicator& base) {
            auto comm = std::make_unique<ending>(base);
            if (comm->rank() == 0) {
                until(1);
                const int x = 3;
                operation ready = send.start(*comm, x, to{1}, mode::ready);
                step = 2;
                allfold::barrier(base);
                expect_error(outcome_of([&] { ready.wait(); }), errc::bad_argument, {"ready"});
            } else {
                const int x = 1;
                for (bool is_full = false; !is_full;) is_full = send.start(*comm, x, to{0}, tag{1}).cancel();
                step = 1;
                until(2);
                expect(!try_probe(*comm, from{0}, tag{1}), "nothing has come that could be received");
                comm.reset();
                allfold::barrier(base);  // in which it may not answer
                comm = std::make_unique<ending>(base);
                expect(!try_probe(*comm, from{0}, tag{1}), "nothing else has come");
            }
            allfold::barrier(base);
        },
        roomy);
    SUCCEED();
}

TEST_CASE("a ready send is refused although its receiver had no room for the answer, and has nothing in flight") {
    for (const bool probes : {false, true}) {
        std::atomic<bool> has_begun = false, is_sent = false, is_full = false;
        on_ranks(2, [&](auto& comm) {
            int x = 1;
            if (comm.rank() == 0) {
                if (probes) {  // its first call for messages was through a decorator that has ended
                    allfold::trace_recorder recorder(2);
                    allfold::traced watched(comm, recorder);
                    expect(!try_probe(watched, from{1}), "nothing has come");
                }
                has_begun = true;
                while (!is_sent) std::this_thread::yield();
                std::uint32_t count = 0;
                const auto send_one = [&] {  // false if there is no room
                    operation one = send.start(comm, x, to{1}, tag{1});
                    return !one.cancel();
                };
                while (probes ? count < allfold::detail::cells_of_a_channel : send_one()) {
                    if (probes) send(comm, x, to{1}, tag{1});
                    ++count;
                }
                for (int turn = probes ? 0 : 1; turn < 2; ++turn)
                    expect(!try_probe(comm, from{1}, tag{1}), "nothing has come that could be received");
                is_full = true;
                allfold::barrier(comm);
                send(comm, count, to{1}, tag{2});
            } else {
                while (!has_begun) std::this_thread::yield();  // an answer to that probe would take one of the cells
                operation ready = send.start(comm, x, to{0}, mode::ready);
                is_sent = true;
                while (!is_full) std::this_thread::yield();
                expect_error(outcome_of([&] { ready.wait(); }), errc::bad_argument, {"ready"});
                allfold::barrier(comm);
                std::uint32_t count = 0;
                receive(comm, count, from{0}, tag{2});
                for (; count > 0; --count) receive(comm, x, from{0}, tag{1});
            }
        });
    }
    SUCCEED();
}

TEST_CASE("a halo exchange in two dimensions, with nobody at the borders") {
    on_all_transports(6, [](auto& comm) {
        constexpr int width = 3, height = 2;
        const int column = comm.rank() % width, row = comm.rank() / width;
        const auto at = [&](int c, int r) { return c < 0 || c >= width || r < 0 || r >= height ? -1 : r * width + c; };
        const std::array<int, 4> around{at(column - 1, row), at(column + 1, row), at(column, row - 1),
                                        at(column, row + 1)};
        std::array<std::vector<int>, 4> own, halo;
        for (int step = 0; step < 10; ++step) {
            std::vector<operation> all;
            for (std::size_t side = 0; side < 4; ++side) {
                const int peer = around[side];
                own[side].assign(700, comm.rank() * 10 + step);
                halo[side].assign(700, -1);
                const auto opposite = static_cast<int>(side ^ 1u);
                all.push_back(receive.start(comm, halo[side], peer < 0 ? from{none} : from{peer}, tag{opposite}));
                all.push_back(send.start(comm, own[side], peer < 0 ? to{none} : to{peer}, tag{static_cast<int>(side)}));
            }
            wait_all(all);
            for (std::size_t side = 0; side < 4; ++side)
                expect(halo[side] == std::vector<int>(700, around[side] < 0 ? -1 : around[side] * 10 + step), "halo");
        }
    });
    SUCCEED();
}

TEST_CASE("random programs of messages and collectives receive what a sequential matching says") {
    const unsigned first = std::random_device{}();
    for (unsigned seed = first; seed < first + fewer_if_sanitized(12U, 4U); ++seed) {
        INFO("seed " << seed);
        std::mt19937 random(seed);
        const int size = 1 + static_cast<int>(random() % 5);
        const std::vector<step_of_program> program = random_messages(random, size, 150);
        CAPTURE(size);
        REQUIRE_NOTHROW(on_all_transports(size, [&](auto& comm) { run_program(comm, program, seed); }));
    }
}
