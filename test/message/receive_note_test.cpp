// SPDX-License-Identifier: BSL-1.0
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/barrier.hpp"
#include "allfold/collective/subset.hpp"
#include "allfold/message.hpp"
#include "test/message/support/every_transport.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/two_worlds.hpp"

using namespace test;

// A started receive is a note (message/detail/receive_note.hpp) as long as it only has to wait for its message; if it
// has a deadline, it is never a note. Whatever happens, both must behave the same.

namespace {

/// Exchanges messages between all ranks: there are no notes before that.
template <class Comm>
void talk(Comm& comm) {
    for (int r = 0; r < comm.size(); ++r) {
        int x = r;
        if (r == comm.rank()) continue;
        send(comm, x, to{r}, tag{99});
        receive(comm, x, from{r}, tag{99});
    }
}

template <class Comm>
[[nodiscard]] bool has_notes(Comm& comm) {
    return allfold::detail::office_of(comm).keeper != nullptr;
}

constexpr auto some_time = allfold::deadline{std::chrono::hours{1}};

template <class Comm, class Y>
[[nodiscard]] operation started(bool as_note, Comm& comm, Y& y, int source, status& told) {
    return as_note ? receive.start(comm, y, from{source}, tag{5}, status_in{told})
                   : receive.start(comm, y, from{source}, tag{5}, status_in{told}, some_time);
}

/// Everything that a program can see of a receive of up to three numbers.
struct seen {
    std::vector<int> place;
    status told;
    std::string text;  // of the exception that it throws
    int calls_back = 0;
    bool is_cancelled = false;
    friend bool operator==(const seen&, const seen&) = default;
};

[[nodiscard]] std::string text_of(const seen& s) {
    std::string all = "[";
    for (const int each : s.place) all += std::to_string(each) + " ";
    return all + "] from " + std::to_string(s.told.source) + ", " + std::to_string(s.told.elements) + " elements" +
           (s.told.cancelled ? ", cancelled" : "") + ", called back " + std::to_string(s.calls_back) + ": " + s.text;
}

enum class asked { waits, tests, any, some, all, moves, destroys, calls_back, cancels, lets_go };
constexpr std::array all_asked{asked::waits, asked::tests,    asked::any,        asked::some,    asked::all,
                               asked::moves, asked::destroys, asked::calls_back, asked::cancels, asked::lets_go};

void ask(asked what, operation& given, seen& all) {
    operation one = std::move(given);
    std::vector<operation> many(3);
    many[1] = what == asked::any || what == asked::some || what == asked::all ? std::move(one) : operation();
    switch (what) {
        case asked::waits: return one.wait();
        case asked::tests:
            while (!one.done()) std::this_thread::yield();
            return;
        case asked::any: expect(wait_any(many) == 1 && wait_any(many) == 3, "any"); return;
        case asked::some:
            expect(wait_some(many) == std::vector<std::size_t>{1} && wait_some(many).empty(), "some");
            return;
        case asked::all:
            while (!test_all(many)) std::this_thread::yield();
            return;
        case asked::moves: {
            operation other = std::move(one);
            one = std::move(other);
            other = std::move(one);
            return other.wait();
        }
        case asked::destroys: return;
        case asked::calls_back:
            one.then([&all] { ++all.calls_back; });
            one.then([&all](const std::exception_ptr&) { all.calls_back += 10; });
            return one.wait();
        case asked::cancels: all.is_cancelled = one.cancel(); return one.wait();
        case asked::lets_go:
            one.release();
            all.told = {};  // what happens later is not reported
            return;
    }
}

/// What rank 1 sends, and when: before rank 0 asks for it, or when rank 0 does.
struct delivery {
    bool comes_first;
    std::size_t length;
    bool is_of_floats;
    mode how;
};

/// What rank 0 sees of a receive of up to three numbers.
template <class Comm>
[[nodiscard]] seen received(Comm& comm, bool as_note, asked what, const delivery& d) {
    seen all{{-1, -1, -1}, {}, {}};
    int go = 0, last = 0;
    if (comm.rank() == 1) {
        const std::array x{7, 8, 9, 10};
        const std::array<float, 4> y{7, 8, 9, 10};
        if (!d.comes_first) receive(comm, go, from{0});
        operation sent = d.is_of_floats ? send.start(comm, std::span(y).first(d.length), to{0}, tag{5}, d.how)
                                        : send.start(comm, std::span(x).first(d.length), to{0}, tag{5}, d.how);
        if (d.comes_first) allfold::barrier(comm);
        send(comm, last, to{0}, tag{5});
        sent.wait();
    } else {
        operation one = started(as_note, comm, all.place, 1, all.told);
        if (d.comes_first) {
            allfold::barrier(comm);
            expect(!try_probe(comm, from{1}, tag{98}), "nothing of that tag");  // takes in what has arrived
        } else if (what != asked::cancels) {
            send(comm, go, to{1});
        }
        all.text = outcome_of([&] { ask(what, one, all); }).text;
        if (!d.comes_first && what == asked::cancels) send(comm, go, to{1});
        std::array<int, 4> other{};
        if (all.is_cancelled && d.is_of_floats)
            expect_error(outcome_of([&] { receive(comm, other, from{1}, tag{5}); }), errc::mismatch, {"float"});
        else if (all.is_cancelled)
            receive(comm, other, from{1}, tag{5});
        receive(comm, last, from{1}, tag{5});
    }
    allfold::barrier(comm);
    return all;
}

}  // namespace

TEST_CASE("a started receive does the same whether it is a note or a call, whatever is asked of it, and when") {
    on_ranks(2, [](auto& comm) {
        talk(comm);
        expect(!has_notes(comm), "notes before any receive has been started");
        int fits = 0, cancelled = 0, failed = 0;
        for (const bool comes_first : {true, false})
            for (const std::size_t length : {0u, 1u, 3u, 4u})
                for (const bool is_of_floats : {false, true})
                    for (const mode how : {mode::standard, mode::synchronous})
                        for (const asked what : all_asked) {
                            const delivery d{comes_first, length, is_of_floats, how};
                            const seen note = received(comm, true, what, d), call = received(comm, false, what, d);
                            if (comm.rank() == 1) continue;
                            expect(note == call, text_of(note) + " and " + text_of(call) + ", asked " +
                                                     std::to_string(static_cast<int>(what)) + ", " +
                                                     std::to_string(length) + (is_of_floats ? " floats" : " integers") +
                                                     (comes_first ? " first" : ""));
                            fits += note.text.empty() && note.place[0] == 7 ? 1 : 0;
                            cancelled += note.is_cancelled ? 1 : 0;
                            failed += note.text.empty() ? 0 : 1;
                        }
        if (comm.rank() == 1) return;
        expect(has_notes(comm), "no notes");
        expect(fits >= 70 && cancelled == 16 && failed >= 100, "what has been tried");
    });
    SUCCEED();
}

TEST_CASE("messages to oneself, noted or not, are received in their order") {
    on_ranks(2, [](auto& comm) {
        talk(comm);
        std::array<int, 8> x{}, y{};
        status told;
        for (int round = 0; round < 20; ++round) {
            std::vector<operation> all;
            for (std::size_t i = 0; i < 8; ++i) {
                y[i] = -1;
                x[i] = static_cast<int>(i) + round;
                all.push_back(i % 3 == 0 ? started(false, comm, y[i], comm.rank(), told)
                                         : receive.start(comm, y[i], from{comm.rank()}, tag{5}));
                if (i == 0) all[0].then([] {});
            }
            if (round % 4 == 1) static_cast<void>(all[4].done());  // it keeps its place among the others
            for (const int& each : x) send(comm, each, to{comm.rank()}, tag{5});
            wait_all(all);
            expect(x == y, "their order");
        }
    });
    SUCCEED();
}

TEST_CASE("what notes have received makes room at their rank for more, which is held until somebody asks for it") {
    on_ranks(2, [](auto& comm) {
        talk(comm);
        constexpr std::size_t at_once = 32, rounds = 40, n = 1 << 10;  // several times what a rank holds
        std::vector<std::vector<std::byte>> x(at_once, std::vector<std::byte>(n));
        for (std::size_t round = 0; round < rounds; ++round) {
            std::vector<operation> all;
            if (comm.rank() == 1)
                for (auto& each : x) all.push_back(receive.start(comm, each, from{0}));
            allfold::barrier(comm);
            if (comm.rank() == 0)
                for (auto& each : x) all.push_back(send.start(comm, each, to{1}));
            wait_all(all);
        }
        allfold::barrier(comm);
        if (comm.rank() == 0) {
            operation last = send.start(comm, x[0], to{1}, tag{1});
            expect(last.done(), "it is not held");
        }
        allfold::barrier(comm);
        if (comm.rank() == 1) receive(comm, x[0], from{0}, tag{1});
    });
    SUCCEED();
}

TEST_CASE("messages of 16 KiB are held while little is, less of it between distant cores") {
    const auto held_at_once = [](const allfold::thread_tuning& tuning) {
        std::size_t held = 0;
        on_ranks(
            2,
            [&](auto& comm) {
                talk(comm);
                allfold::barrier(comm);  // each has taken a message from the other: distances can be measured
                std::vector<std::vector<std::byte>> x(10, std::vector<std::byte>(16 << 10));
                std::vector<operation> all;
                if (comm.rank() == 0) {
                    for (auto& each : x) all.push_back(send.start(comm, each, to{1}));
                    while (held < all.size() && all[held].done()) ++held;
                }
                allfold::barrier(comm);
                if (comm.rank() == 1)
                    for (auto& each : x) receive(comm, each, from{0});
                wait_all(all);
            },
            tuning);
        return held;
    };
    CHECK(held_at_once({.far_latency = std::chrono::nanoseconds::max()}) == 5);  // of 96 KiB, with their envelopes
    CHECK(held_at_once(scattered) == 1);                                         // of 32 KiB
}

TEST_CASE("a note keeps its place when it becomes a call, and messages that fit several go to the first") {
    on_ranks(2, [](auto& comm) {
        talk(comm);
        constexpr std::size_t n = 12;
        for (int round = 0; round < 30; ++round) {
            std::array<int, n> y{};
            if (comm.rank() == 1) {
                allfold::barrier(comm);
                for (int i = 0; i < static_cast<int>(n); ++i) send(comm, i, to{0}, tag{5});
            } else {
                std::vector<operation> all;
                for (std::size_t i = 0; i < n; ++i)
                    all.push_back(i % 5 == 4 ? receive.start(comm, y[i], from{allfold::any}, tag{5})
                                             : receive.start(comm, y[i], from{1}, tag{5}));
                for (std::size_t i = static_cast<std::size_t>(round) % 4; i < n; i += 3)
                    expect(!all[i].done(), "nothing has been sent");
                const std::size_t given_up = static_cast<std::size_t>(round) % n;
                int late = 0;
                expect(all[given_up].cancel(), "cancelled");
                allfold::barrier(comm);
                wait_all(all);
                receive(comm, late, from{1}, tag{5});
                for (std::size_t i = 0; i < n; ++i)
                    expect(y[i] == (i < given_up    ? static_cast<int>(i)
                                    : i == given_up ? 0
                                                    : static_cast<int>(i) - 1),
                           "order");
                expect(late == static_cast<int>(n) - 1, "the last one");
            }
        }
    });
    SUCCEED();
}

TEST_CASE("what is tested for ends, though the first of it had ended when it was started, or before it was asked for") {
    on_ranks(2, [](auto& comm) {
        talk(comm);
        const int other = 1 - comm.rank();
        for (int i = 0; i < 20; ++i) {
            int x = i, y = -1, z = -1, go = 0;
            if (comm.rank() == 0) {
                std::array<operation, 3> all;
                all[0] =
                    i % 2 == 0 ? send.start(comm, x, to{other}, tag{1}) : receive.start(comm, y, from{other}, tag{2});
                all[1] = receive.start(comm, z, from{other}, tag{3});
                if (i % 2 == 1) {
                    allfold::barrier(comm);
                    expect(!try_probe(comm, from{other}, tag{98}), "nothing of that tag");  // takes in what has arrived
                }
                expect(!test_all(all), "the second one has not come");
                send(comm, go, to{other}, tag{4});
                if (i % 3 == 0)
                    while (!test_all(all)) std::this_thread::yield();
                else if (i % 3 == 1)
                    for (std::size_t told = 0; told < 2; told += test_some(all).size()) std::this_thread::yield();
                else
                    for (std::size_t told = 0; told < 2; told += test_any(all).value_or(3) < 3 ? 1 : 0)
                        std::this_thread::yield();
                expect(z == i, "the second one");
            } else {
                if (i % 2 == 0) {
                    receive(comm, y, from{other}, tag{1});
                } else {
                    send(comm, x, to{other}, tag{2});
                    allfold::barrier(comm);
                }
                receive(comm, go, from{other}, tag{4});
                send(comm, x, to{other}, tag{3});
            }
        }
    });
    SUCCEED();
}

TEST_CASE("at the end of one receive another one is asked for that is being waited for") {
    on_ranks(2, [](auto& comm) {
        talk(comm);
        for (int i = 0; i < 200; ++i) {
            int x = i, y = -1, z = -1;
            if (comm.rank() == 0) {
                operation first = receive.start(comm, y, from{1}, tag{1});
                operation second = receive.start(comm, z, from{1}, tag{2});
                first.then([&] { static_cast<void>(second.done()); });
                send(comm, x, to{1}, tag{3});
                second.wait();
                expect(z == i && y == i, "both");
                first.wait();
            } else {
                receive(comm, y, from{0}, tag{3});
                send(comm, x, to{0}, tag{1});
                for (int turn = 0; turn < i % 20; ++turn) std::this_thread::yield();
                send(comm, x, to{0}, tag{2});
            }
        }
    });
    SUCCEED();
}

TEST_CASE("notes make progress while their rank waits for something else") {
    on_two_communicators(2, [](auto& comm, auto& other) {
        talk(comm);
        talk(other);
        int x = 1, y = 0, z = 0;
        for (int i = 0; i < 20; ++i) {
            if (comm.rank() == 0) {
                operation one = receive.start(comm, y, from{1});
                receive(other, z, from{1});  // sent once the other message has been received
                expect(one.done(), "received while its rank waits elsewhere");
            } else {
                send(comm, x, to{0}, mode::synchronous);
                send(other, x, to{0});
            }
        }
    });
    SUCCEED();
}

TEST_CASE("notes whose communicator ends, or one of whose ranks fails, say so") {
    allfold::thread_world world(1);
    std::vector<operation> left;
    std::array<int, 20> y{};
    {
        auto comm = world.communicator(0);
        int x = 3;
        operation first = receive.start(comm, x, from{0});
        send(comm, x, to{0});
        first.wait();
        for (int& each : y) left.push_back(receive.start(comm, each, from{0}));
        expect(has_notes(comm), "no notes");
    }
    for (operation& each : left)
        expect_error(outcome_of([&] { each.wait(); }), errc::bad_argument,
                     {"receive: its communicator ended before it was done: rank 0 waits for rank 0"});

    for (const auto& tuning : {allfold::thread_tuning{}, noticing}) {
        const auto outcomes = outcomes_on_ranks(
            3,
            [](auto& comm) {
                talk(comm);
                int z = 0;
                std::array<operation, 3> all;
                for (operation& each : all) each = receive.start(comm, z, from{2});
                if (comm.rank() == 2) throw std::runtime_error("burnt");
                const outcome own = outcome_of([&] { wait_all(all); });
                for (operation& each : all) expect(!outcome_of([&] { each.wait(); }).succeeded(), "each has failed");
                if (!own.succeeded()) throw std::runtime_error(own.text);
            },
            tuning);
        CHECK(outcomes[0].says("burnt"));
        CHECK(outcomes[1].says("burnt"));
        const auto gone = outcomes_on_ranks(
            2,
            [](auto& comm) {
                talk(comm);
                int z = 0;
                if (comm.rank() == 0) receive.start(comm, z, from{1}).wait();
            },
            tuning);
        CHECK(gone[0].code == errc::peer_failed);
        CHECK(gone[0].says("rank 1"));
    }
}

TEST_CASE("a note whose communicator has ended is waited for together with another operation") {
    std::atomic<bool> is_alone = false;
    on_ranks(2, [&](auto& comm) {
        int x = 7, y = 0, z = 0;
        operation left;
        {
            const auto team = allfold::subset(comm, {0, 1});
            talk(*team);
            if (comm.rank() == 0) left = receive.start(*team, y, from{1});
            while (comm.rank() == 0 && !is_alone) std::this_thread::yield();  // the other one might hear of its end
        }
        if (comm.rank() == 1) is_alone = true;
        if (comm.rank() == 0) {
            std::vector<operation> all;
            all.push_back(receive.start(comm, z, from{1}));
            all.push_back(std::move(left));
            expect_error(outcome_of([&] { wait_all(all); }), errc::bad_argument, {"its communicator ended"});
            expect(z == 7, "the other one");
        } else {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
            send(comm, x, to{0});
        }
    });
    SUCCEED();
}

TEST_CASE("in an operator a note is asked for, or let go of, and completes after it") {
    on_ranks(2, [](auto& comm) {
        talk(comm);
        int y = 0, z = 0, x = 4;
        operation asked_for = receive.start(comm, y, from{1 - comm.rank()}, tag{1});
        auto left = std::make_unique<operation>(receive.start(comm, z, from{1 - comm.rank()}, tag{2}));
        const auto op = allfold::commutative([&](int a, int b) {
            expect(!asked_for.done(), "done in an operator");
            left.reset();
            return a + b;
        });
        int sum = 1;
        allfold::all_reduce(comm, sum, op);
        send(comm, x, to{1 - comm.rank()}, tag{1});
        send(comm, x, to{1 - comm.rank()}, tag{2});
        asked_for.wait();
        left.reset();
        int last = 0;
        exchange(comm, x, to{1 - comm.rank()}, last, from{1 - comm.rank()}, tag{2});  // after the destroyed receive
        expect(y == 4 && z == 4 && sum == 2, "what comes after");
    });
    SUCCEED();
}

TEST_CASE("a communicator with notes goes to another thread, which pushes them on") {
    on_ranks(2, [](auto& comm) {
        talk(comm);
        for (int i = 0; i < 50; ++i) {
            int x = i, y = -1, z = -1;
            operation first = receive.start(comm, y, from{1 - comm.rank()}, tag{1});
            operation second = receive.start(comm, z, from{1 - comm.rank()}, tag{2});
            std::thread([&] {
                send(comm, x, to{1 - comm.rank()}, tag{1});
                send(comm, x, to{1 - comm.rank()}, tag{2});
                i % 2 == 0 ? first.wait() : allfold::barrier(comm);
            }).join();
            if (i % 2 == 0) allfold::barrier(comm);
            second.wait();
            first.wait();
            expect(y == i && z == i, "both");
        }
    });
    SUCCEED();
}
