// SPDX-License-Identifier: BSL-1.0
#include "allfold/collective/together.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective.hpp"
#include "allfold/schedule/recursive_doubling.hpp"
#include "allfold/transport/self.hpp"
#include "allfold/transport/traced.hpp"
#include "test/collective/together_checks.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/remote.hpp"
#include "test/support/sanitized.hpp"

using namespace test;
using allfold::operation;
using allfold::sum;

TEST_CASE("collectives together give what they give one after another") {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    for (const int size : {1, 2, 3, 4, 5, 8})
        for (unsigned turn = 0; turn < fewer_if_sanitized(3U, 1U); ++turn) {
            on_ranks(size, [&](auto& comm) { check_together(comm, seed + 10 * turn); }, impatient);
            on_ranks(
                size,
                [&](auto& comm) {
                    remote far(comm);
                    check_together(far, seed + 10 * turn);
                },
                roomy);
        }
    allfold::self alone;
    check_together(alone, seed);
    SUCCEED();
}

namespace {

/// How many messages rank 0 sends.
template <class Body>
std::size_t messages_of(int size, Body body) {
    allfold::trace_recorder recorder(size);
    on_ranks(
        size,
        [&](auto& comm) {
            remote far(comm);
            allfold::traced watched(far, recorder);
            body(watched);
        },
        roomy);
    std::size_t messages = 0;
    for (const auto& each : recorder.line_of(0)) messages += each.is_message() && each.name == std::string("send");
    return messages;
}

}  // namespace

TEST_CASE("short messages of collectives together travel as one") {
    const auto one = messages_of(8, [](auto& comm) {
        std::vector<int> x(10, 1);
        allfold::all_reduce(comm, x, sum(), allfold::recursive_doubling());
    });
    const auto three = [] {
        return messages_of(8, [](auto& comm) {
            std::vector<int> x(10, 1), y(500, 1), z(1, 1);
            const allfold::recursive_doubling doubling;
            allfold::together(comm, allfold::all_reduce.with(x, sum(), doubling),
                              allfold::all_reduce.with(y, allfold::max(), doubling),
                              allfold::all_reduce.with(z, sum(), doubling));
            expect(x[9] == 8 && y[499] == 1 && z[0] == 8, "wrong result");
        });
    };
    CHECK(one == 3);
    std::size_t fewest = 3 * one;
    for (int turn = 0; turn < 50 && fewest > one; ++turn) {
        const std::size_t messages = three();
        CHECK(messages < 3 * one);  // a packet may be late, and then part of what it could have held has been sent
        fewest = std::min(fewest, messages);
    }
    CHECK(fewest == one);
}

TEST_CASE("a collective to be put together may be kept, and used again") {
    for (const bool is_far : {false, true}) {
        const auto body = [](auto& comm) {
            std::vector<int> x(3, 1), y(3, comm.rank());
            const auto part = [&](int more) {  // its operator and options are gone when it is used
                return allfold::all_reduce.with(x, allfold::commutative([more](int a, int b) { return a + b + more; }),
                                                allfold::window{1 << 10});
            };
            const auto folds = part(100);
            const auto from_last = allfold::broadcast.with(std::span(y), allfold::root{comm.size() - 1});
            auto once = part(1000);
            allfold::together(comm, folds, from_last);
            expect(x[2] == 102 && y[2] == 1, "called");
            allfold::persistent again = allfold::together.prepare(comm, from_last, folds);
            y[2] = 10 * comm.rank();
            again();
            expect(x[2] == 304 && y[2] == 10, "prepared");
            allfold::together.start(comm, std::move(once)).wait();
            expect(x[2] == 1608, "started");
        };
        on_ranks(
            2,
            [&](auto& comm) {
                remote far(comm);
                is_far ? body(far) : body(comm);
            },
            roomy);
    }
    SUCCEED();
}

TEST_CASE("different collectives put together are a mismatch") {
    const auto tell = [](auto body) {
        for (const bool is_far : {false, true}) {
            const auto outcomes = outcomes_on_ranks(
                2,
                [&](auto& comm) {
                    remote far(comm);
                    is_far ? body(far) : body(comm);
                },
                roomy);
            CHECK(outcomes[0].code.has_value());
            CHECK(outcomes[1].code.has_value());
            const bool is_told =
                outcomes[0].code == allfold::errc::mismatch || outcomes[1].code == allfold::errc::mismatch;
            CHECK(is_told);
        }
    };
    tell([](auto& comm) {  // in number
        int x = 1, y = 1;
        if (comm.rank() == 0)
            allfold::together(comm, allfold::all_reduce.with(x, sum()), allfold::all_reduce.with(y, sum()));
        else
            allfold::together(comm, allfold::all_reduce.with(x, sum()));
        allfold::barrier(comm);
    });
    tell([](auto& comm) {  // in length: bundled on one rank, and not on the other
        std::vector<int> x(comm.rank() == 0 ? 10 : 5000, 1), y(10, 1);
        allfold::together(comm, allfold::all_reduce.with(x, sum()), allfold::all_reduce.with(y, sum()));
    });
    tell([](auto& comm) {  // in kind
        int x = 1, y = 1;
        if (comm.rank() == 0) {
            allfold::together(comm, allfold::all_reduce.with(x, sum()), allfold::all_reduce.with(y, sum()));
        } else {
            allfold::all_reduce(comm, x, sum());
            allfold::all_reduce(comm, y, allfold::max());
        }
    });
}

TEST_CASE("an error in one of several collectives is thrown by all ranks") {
    struct boom : std::runtime_error {
        boom() : std::runtime_error("boom") {}
    };
    for (const bool is_far : {false, true}) {
        const auto body = [](auto& comm) {
            const auto fails = allfold::associative([](int, int) -> int { throw boom(); });
            std::vector<int> x(5, 1), y(5, 1);
            allfold::together(comm, allfold::all_reduce.with(x, sum()), allfold::all_reduce.with(y, fails));
        };
        const auto outcomes = outcomes_on_ranks(
            3,
            [&](auto& comm) {
                remote far(comm);
                is_far ? body(far) : body(comm);
            },
            roomy);
        bool is_heard = false;
        for (const auto& each : outcomes) {
            CHECK(!each.succeeded());
            is_heard |= each.text == "boom";
        }
        CHECK(is_heard);
    }
}

namespace {

/// A sum that cannot be copied any more once `fails` is set.
struct hard_to_copy {
    bool* fails;
    explicit hard_to_copy(bool& flag) : fails(&flag) {}
    hard_to_copy(const hard_to_copy& from) : fails(from.fails) {
        if (*fails) throw std::runtime_error("no copy");
    }
    hard_to_copy& operator=(const hard_to_copy&) = delete;
    ~hard_to_copy() = default;
    int operator()(int a, int b) const { return a + b; }
};

}  // namespace

TEST_CASE("a rank that cannot copy a part that is kept in a variable leaves no other rank waiting") {
    for (const int verb : {0, 1, 2}) {
        std::atomic<bool> is_released = false;
        const auto outcomes = outcomes_on_ranks(2, [&](auto& comm) {
            bool fails = false;
            int x = 1;
            const auto part = allfold::all_reduce.with(x, allfold::associative(hard_to_copy(fails)));
            fails = comm.rank() == 0;
            try {
                if (verb == 0) allfold::together(comm, part);
                if (verb == 1) allfold::together.start(comm, part).wait();
                if (verb == 2) allfold::together.prepare(comm, part)();
            } catch (...) {
                while (comm.rank() == 0 && !is_released) std::this_thread::yield();
                is_released = true;
                throw;
            }
        });
        CHECK(outcomes[0].text == "no copy");
        CHECK(outcomes[1].code == allfold::errc::peer_failed);
    }
}

namespace {

/// A wrapper that ends before the communicator that it wraps.
struct remote_for_a_while : remote {
    using remote::remote;
    ~remote_for_a_while() { background().end(this); }
};

}  // namespace

TEST_CASE("collectives together are completed by what a rank sent before it returned, also if they are only tested") {
    const int tests_before_a_look = 1023;
    std::atomic<int> step{0};
    const auto until = [&](int wanted) {
        while (step < wanted) std::this_thread::yield();
    };
    on_ranks(2, [&](auto& comm) {
        int x = comm.rank() * 10, y = comm.rank() * 20;
        auto both = allfold::together.prepare(comm, allfold::broadcast.with(x, allfold::root{1}));
        auto other = allfold::broadcast.prepare(comm, y, allfold::root{1});
        if (comm.rank() == 1) {
            until(1);
            other.start();
            other.wait();
            until(2);
            both.start();
            return both.wait();
        }
        both.start();
        other.start();
        other.then([&] {  // between the look at a part, and the look at whether its rank has returned
            step = 2;
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
        });
        for (int i = 0; i < tests_before_a_look; ++i) expect(!both.done(), "nobody has sent anything");
        step = 1;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        while (!both.done()) {
        }
        both.wait();
        expect(x == 10, "what rank 1 has sent");
    });
    SUCCEED();
}

TEST_CASE("collectives together that are in flight when their communicator ends are abandoned") {
    for (const bool is_far : {false, true}) {
        std::vector<int> x(5, 1), y(5000, 1);
        std::string told;
        operation op;
        allfold::run(2, [&](auto& comm) {
            if (comm.rank() != 0) return;
            remote_for_a_while far(comm);
            const auto start = [&](auto& on) {
                op =
                    allfold::together.start(on, allfold::all_reduce.with(x, sum()), allfold::all_reduce.with(y, sum()));
            };
            is_far ? start(far) : start(comm);
        });
        CHECK_THROWS_WITH(op.wait(), Catch::Contains("communicator ended"));
    }
}
