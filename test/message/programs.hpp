// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/barrier.hpp"
#include "allfold/collective/broadcast.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/message.hpp"
#include "test/support/oracle.hpp"

/// @file
/// Checks of messages between the ranks of any transport.

namespace test {

/// Checks messages of every mode between the first two ranks; the others do nothing.
template <class Comm>
void check_every_mode(Comm& comm) {
    using namespace allfold;
    if (comm.rank() > 1) return;
    const int other = 1 - comm.rank();
    attach_buffer(comm, 4 << 20);
    for (const std::size_t n : std::vector<std::size_t>{0, 1, 5, 1000, 5000, 100000})
        for (const mode how : {mode::standard, mode::buffered, mode::synchronous}) {
            std::vector<int> x(n + 3, -1), y(n + 3, -1);
            std::iota(x.begin(), x.end() - 3, static_cast<int>(how) + comm.rank());
            std::vector<int> expected(x);
            std::iota(expected.begin(), expected.end() - 3, static_cast<int>(how) + other);
            const std::span<const int> sent(x.data(), n);
            if (comm.rank() == 0) {
                send(comm, sent, to{other}, tag{3}, how);
                expect(receive(comm, y, from{other}, tag{4}) == status{other, 4, n, false}, "status");
            } else {
                expect(receive(comm, y, from{any}, tag{any}) == status{other, 3, n, false}, "status");
                send(comm, sent, to{other}, tag{4}, how);
            }
            expect(y == expected, "another message, or more than that");
            // In both directions at once, then again in place.
            std::fill(y.begin(), y.end(), -1);
            exchange(comm, sent, to{other}, y, from{other}, how);
            expect(y == expected, "exchanged");
            exchange(comm, x, to{other}, from{other}, how);
            expect(x == expected, "exchanged in place");
            // To itself.
            std::fill(y.begin(), y.end(), -1);
            operation own = send.start(comm, std::span<const int>(expected.data(), n), to{comm.rank()}, how);
            receive(comm, y, from{comm.rank()});
            own.wait();
            expect(y == expected, "from itself");
        }
    int word = 0;
    exchange(comm, word, to{other}, from{other});
    expect(detach_buffer(comm) == 4 << 20, "the buffer");
}

/// Checks that a short send in any mode carries its data: a rank that has received a later message has all of it, and
/// the sender may free it.
template <class Comm>
void check_data_comes_along(Comm& comm, std::size_t longest) {
    using namespace allfold;
    if (comm.rank() > 1) return;
    const int other = 1 - comm.rank();
    for (const std::size_t n : {std::size_t{1}, std::size_t{100}, longest})
        for (const mode how : {mode::standard, mode::synchronous}) {
            std::vector<std::size_t> x(n, n), y(n);
            std::size_t last = 0;
            operation first = comm.rank() == 0 ? send.start(comm, x, to{other}, tag{1}, how)
                                               : receive.start(comm, y, from{other}, tag{1});
            if (comm.rank() == 0) {
                send(comm, n, to{other}, tag{2});
            } else {
                receive(comm, last, from{other}, tag{2});
                expect(last == n && first.done() && y == x, "all of the message before");
            }
            first.wait();
        }
}

/// A step of a random program: a message, or a collective.
struct step_of_program {
    int sender = 0, receiver = 0;  // equal: a message to itself
    int label = 0;
    std::size_t elements = 0;
    allfold::mode how = allfold::mode::standard;
    bool is_collective = false, by_wildcard_tag = false;
    int value = 0;
};

inline std::vector<step_of_program> random_messages(std::mt19937& random, int size, int steps) {
    const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    std::vector<step_of_program> all(static_cast<std::size_t>(steps));
    for (int i = 0; i < steps; ++i) {
        step_of_program& s = all[static_cast<std::size_t>(i)];
        s.value = i + 1;
        s.is_collective = pick(6) == 0;
        s.sender = pick(size);
        s.receiver = pick(size);
        s.label = pick(3);
        using allfold::mode;
        s.how = std::array{mode::standard, mode::standard, mode::synchronous}[static_cast<std::size_t>(pick(3))];
        constexpr std::array<std::size_t, 7> lengths{0, 1, 10, 800, 3000, 9000, 40000};
        s.elements = lengths[static_cast<std::size_t>(pick(7))];
    }
    return all;
}

/// Every rank starts its own steps in program order, except that receives are started in a random order which preserves
/// the order within each sender and tag. Checks that each rank receives what a sequential matching gives it.
template <class Comm>
void run_program(Comm& comm, const std::vector<step_of_program>& program, unsigned seed) {
    using namespace allfold;
    std::mt19937 random(seed * 31 + static_cast<unsigned>(comm.rank()));
    struct in_flight {
        std::vector<int> data;
        status found;
        int total = 0;
    };
    std::deque<in_flight> memory;
    std::vector<operation> started;
    std::vector<std::pair<in_flight*, const step_of_program*>> received;
    const auto receive_one = [&](const step_of_program& s) {
        in_flight& f = memory.emplace_back();
        f.data.assign(s.elements + 2, -1);
        started.push_back(receive.start(comm, f.data, from{s.sender}, tag{s.label}, status_in{f.found}));
        received.emplace_back(&f, &s);
    };
    std::vector<const step_of_program*> put_off;
    const auto catch_up = [&] {
        while (!put_off.empty()) {
            std::size_t i = random() % put_off.size();
            for (std::size_t j = 0; j < i; ++j)  // not before an older one with the same sender and tag
                if (put_off[j]->sender == put_off[i]->sender && put_off[j]->label == put_off[i]->label) i = j;
            receive_one(*put_off[i]);
            put_off.erase(put_off.begin() + static_cast<std::ptrdiff_t>(i));
        }
    };
    for (const step_of_program& s : program) {
        if (s.is_collective) {
            in_flight& f = memory.emplace_back();
            f.total = s.value + comm.rank();
            if (s.label == 0) {
                allfold::all_reduce(comm, f.total, allfold::sum());
                expect(f.total == comm.size() * s.value + comm.size() * (comm.size() - 1) / 2, "a collective");
            } else {
                f.data.assign(s.elements + 1, s.value + comm.rank());
                started.push_back(allfold::broadcast.start(comm, f.data, allfold::root{s.receiver}));
            }
            continue;
        }
        if (s.sender == comm.rank()) {
            in_flight& f = memory.emplace_back();
            f.data.assign(s.elements, s.value);
            started.push_back(send.start(comm, f.data, to{s.receiver}, tag{s.label}, s.how));
        }
        if (s.receiver == comm.rank()) put_off.push_back(&s);
        if (random() % 4 == 0) catch_up();
    }
    catch_up();
    wait_all(started);
    for (const auto& [f, s] : received) {
        expect(f->found == status{s->sender, s->label, s->elements, false}, "status");
        expect(std::vector<int>(f->data.begin(), f->data.end() - 2) == std::vector<int>(s->elements, s->value), "data");
        expect(f->data[s->elements] == -1 && f->data[s->elements + 1] == -1, "beyond its place");
    }
}

}  // namespace test
