// SPDX-License-Identifier: BSL-1.0
#include <atomic>
#include <chrono>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/operator.hpp"
#include "allfold/collective.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/message.hpp"
#include "allfold/schedule/ring.hpp"
#include "allfold/transport/self.hpp"
#include "allfold/transport/traced.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/two_worlds.hpp"

/// @file
/// Handles of operations, used in ways that they are not meant for.

using namespace test;
using namespace std::chrono_literals;
using allfold::errc;
using allfold::operation;
using allfold::persistent;
using allfold::sum;

namespace {

void expect_error(const outcome& got, errc code, const std::string& part) {
    expect(got.code == code && got.says(part), "expected \"" + part + "\", but got \"" + got.text + "\"");
}

}  // namespace

TEST_CASE("starting a prepared operation in flight is one clear error without side effects") {
    for (const std::size_t n : {std::size_t{1}, std::size_t{50000}})
        on_ranks(2, [&](auto& comm) {
            std::vector<int> x(n, 1);
            persistent op = allfold::all_reduce.prepare(comm, x, sum());
            for (int turn = 0; turn < 3; ++turn) {
                std::ranges::fill(x, 1);
                op.start();
                expect_error(outcome_of([&] { op.start(); }), errc::bad_argument, "all_reduce: rank");
                expect_error(outcome_of([&] { op(); }), errc::bad_argument, "in flight");
                op.wait();
                for (const int each : x) expect(each == 2, "wrong sum");
            }
            allfold::barrier(comm);
        });
    SUCCEED();
}

TEST_CASE("an empty prepared operation cannot be started") {
    persistent none;
    CHECK(outcome_of([&] { none.start(); }).code == errc::bad_argument);
    CHECK(outcome_of([&] { none(); }).code == errc::bad_argument);
    CHECK(none.done());
    CHECK_NOTHROW(none.wait());
    on_ranks(2, [](auto& comm) {
        int x = 1;
        persistent op = allfold::all_reduce.prepare(comm, x, sum());
        persistent other = std::move(op);
        expect_error(outcome_of([&] { op.start(); }), errc::bad_argument, "empty");
        other();
        expect(x == 2, "wrong sum");
    });
}

TEST_CASE("an operation in flight that outlives its communicator reports an error") {
    for (const std::size_t n : {std::size_t{1}, std::size_t{1000}, std::size_t{50000}}) {
        std::vector<std::vector<int>> x(2, std::vector<int>(n, 1)), y = x;
        std::vector<operation> left(2), also(2);
        std::atomic<bool> gone = false;
        const auto outcomes = outcomes_on_ranks(2, [&](auto& comm) {
            const auto r = static_cast<std::size_t>(comm.rank());
            if (comm.rank() == 1) {  // waits until rank 0 has left
                while (!gone) std::this_thread::yield();
                std::this_thread::sleep_for(20ms);
                allfold::all_reduce(comm, x[1], sum(), allfold::ring());
                return;
            }
            left[r] = allfold::all_reduce.start(comm, x[r], sum(), allfold::ring());
            also[r] = allfold::all_reduce.start(comm, y[r], sum(), allfold::ring());
            gone = true;
        });
        INFO(outcomes[1].text);
        CHECK(outcomes[1].code == errc::peer_failed);
        CHECK(outcomes[1].says("communicator ended"));
        for (operation* each : {&left[0], &also[0]})
            for (int turn = 0; turn < 2; ++turn) {
                const outcome got = outcome_of([&] { each->wait(); });
                INFO(got.text);
                CHECK(got.code == errc::bad_argument);
                CHECK(got.says("all_reduce"));
                CHECK(got.says("communicator ended"));
                CHECK_FALSE(outcome_of([&] { static_cast<void>(each->done()); }).succeeded());
            }
    }
}

TEST_CASE("a prepared operation that outlives its communicator cannot be started") {
    std::optional<allfold::self> comm(std::in_place);
    int x = 1;
    persistent alone = allfold::all_reduce.prepare(*comm, x, sum());
    alone();
    comm.reset();
    CHECK(alone.done());
    CHECK(outcome_of([&] { alone.start(); }).code == errc::bad_argument);

    std::vector<persistent> left(2);
    std::vector<int> y(2, 1);
    on_ranks(2, [&](auto& c) {
        const auto r = static_cast<std::size_t>(c.rank());
        left[r] = allfold::all_reduce.prepare(c, y[r], sum());
        left[r]();
    });
    const outcome got = outcome_of([&] { left[0].start(); });
    CHECK(got.code == errc::bad_argument);
    CHECK(got.says("communicator of this prepared operation has ended"));
    CHECK_NOTHROW(left[0].wait());
}

TEST_CASE("an operation that outlives a decorator of its communicator reports an error") {
    allfold::trace_recorder recorder(2);
    std::vector<std::vector<int>> x(2, std::vector<int>(50000, 1));
    std::atomic<bool> gone = false;
    const auto outcomes = outcomes_on_ranks(2, [&](auto& comm) {
        if (comm.rank() == 1) {
            while (!gone) std::this_thread::yield();
            return allfold::all_reduce(comm, x[1], sum(), allfold::ring());
        }
        operation op;
        {
            allfold::traced watched(comm, recorder);
            op = allfold::all_reduce.start(watched, x[0], sum(), allfold::ring());
        }
        gone = true;
        op.wait();
    });
    INFO(outcomes[0].text);
    CHECK(outcomes[0].says("communicator ended"));
    CHECK_FALSE(outcomes[1].succeeded());
}

TEST_CASE("a collective inside the operator of an operation on the same communicator is refused") {
    for (const std::size_t n : {std::size_t{3}, std::size_t{50000}})
        for (const bool blocking : {false, true}) {
            const auto outcomes = outcomes_on_ranks(2, [&](auto& comm) {
                std::vector<int> x(n, 1);
                const auto nested = allfold::commutative([&comm](int a, int b) {
                    int y = 1;
                    allfold::all_reduce(comm, y, sum());
                    return a + b + y - 2;
                });
                if (blocking) return allfold::all_reduce(comm, x, nested);
                operation op = allfold::all_reduce.start(comm, x, nested);
                op.wait();
            });
            bool told = false;
            for (const auto& each : outcomes) {
                INFO(each.text);
                CHECK_FALSE(each.succeeded());
                CHECK(each.says("inside the operator"));
                told = told || each.code == errc::bad_argument;
            }
            CHECK(told);
        }
}

TEST_CASE("an operator may look at other operations, and survive the refusal of a collective") {
    on_ranks(2, [](auto& comm) {
        std::vector<int> x(1000, 1), y(1000, 1);
        operation other;
        const auto curious = allfold::commutative([&](int a, int b) {
            static_cast<void>(other.done());
            const outcome got = outcome_of([&] { allfold::barrier(comm); });
            expect_error(got, errc::bad_argument, "inside the operator");
            return a + b;
        });
        operation op = allfold::all_reduce.start(comm, x, curious, allfold::ring());
        other = allfold::all_reduce.start(comm, y, sum(), allfold::ring());
        op.wait();
        other.wait();
        for (const int each : x) expect(each == 2, "wrong sum");
        for (const int each : y) expect(each == 2, "wrong sum of the other");
    });
    SUCCEED();
}

TEST_CASE("a collective inside an operator works on another communicator") {
    on_two_communicators(2, [](auto& a, auto& b) {
        int x = 1;
        const auto nested = allfold::commutative([&b](int left, int right) {
            int y = 1;
            allfold::all_reduce(b, y, sum());
            return left + right + y - 2;
        });
        operation op = allfold::all_reduce.start(a, x, nested);
        op.wait();
        expect(x == 2, "wrong sum");
    });
    SUCCEED();
}

TEST_CASE("an operation that is destroyed by an exception tells its peers which exception that was") {
    for (const std::size_t n : {std::size_t{1}, std::size_t{50000}}) {
        std::string text;
        std::atomic<bool> gone = false;
        const auto body = [&](auto& comm) {
            std::vector<int> x(n, 1);
            try {
                if (comm.rank() == 1) {
                    const struct at_the_end {
                        std::atomic<bool>& flag;
                        ~at_the_end() { flag = true; }
                    } tell{gone};
                    const operation lost = allfold::all_reduce.start(comm, x, sum(), allfold::ring());
                    throw std::range_error("the user's own");
                }
                while (!gone) std::this_thread::yield();
                allfold::all_reduce(comm, x, sum(), allfold::ring());
            } catch (const allfold::error& e) {
                text = e.what();
                throw;
            }
        };
        CHECK_THROWS_AS(on_ranks(2, body), std::range_error);
        INFO(text);
        CHECK(text.find("all_reduce: aborted on rank 0 of 2: rank 1 failed: the user's own") != std::string::npos);
    }
}

TEST_CASE("wait_any returns each operation once, then the number of operations") {
    on_ranks(2, [](auto& comm) {
        constexpr std::size_t count = 5;
        std::vector<int> x(count, 1);
        std::vector<operation> operations;
        for (int& each : x) operations.push_back(allfold::all_reduce.start(comm, each, sum()));
        std::vector<bool> seen(count);
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t which = wait_any(operations);
            expect(which < count && !seen[which], "not one that was not seen");
            seen[which] = true;
            expect(x[which] == 2, "not done");
        }
        expect(wait_any(operations) == count, "not none");
        expect(wait_some(operations).empty(), "not none of some");
        wait_all(operations);
    });
    SUCCEED();
}

TEST_CASE("wait_some returns each operation once") {
    on_ranks(2, [](auto& comm) {
        std::vector<int> x(7, 1);
        std::vector<operation> operations;
        for (int& each : x) operations.push_back(allfold::all_reduce.start(comm, each, sum()));
        operations[3].wait();  // already reported
        std::vector<int> seen(x.size());
        for (std::vector<std::size_t> some; !(some = wait_some(operations)).empty();)
            for (const std::size_t which : some) ++seen[which];
        expect(seen == std::vector{1, 1, 1, 0, 1, 1, 1}, "not each once");
    });
    SUCCEED();
}

TEST_CASE("wait_any passes over operations that are empty or have been waited for") {
    on_ranks(2, [](auto& comm) {
        int x = 1, y = 1;
        std::vector<operation> operations(3);
        expect(wait_any(operations) == 3, "empty ones");
        operations[0] = allfold::all_reduce.start(comm, x, sum());
        operations[2] = allfold::all_reduce.start(comm, y, sum());
        operations[0].wait();
        expect(wait_any(operations) == 2, "not the one that is left");
        expect(y == 2 && wait_any(operations) == 3, "more than there were");
    });
    SUCCEED();
}

TEST_CASE("wait_any throws the failure of an operation once") {
    const auto outcomes = outcomes_on_ranks(2, [](auto& comm) {
        const auto fails = allfold::associative([](int, int) -> int { throw std::runtime_error("boom"); });
        int x = 1;
        std::vector<operation> operations;
        operations.push_back(allfold::all_reduce.start(comm, x, fails));
        expect(!outcome_of([&] { static_cast<void>(wait_any(operations)); }).succeeded(), "not thrown");
        expect(wait_any(operations) == 1, "again");
        operations[0].wait();
    });
    for (const auto& each : outcomes) CHECK((each.text == "boom" || each.code == errc::peer_failed));
}

TEST_CASE("test_all, test_any and test_some tell what is done, and wait for nothing") {
    for (const auto& tuning : {allfold::thread_tuning(), impatient}) {
        std::atomic<int> stage = 0;
        const auto reach = [&](int next) {
            while (stage < next) std::this_thread::yield();
        };
        on_ranks(
            2,
            [&](auto& comm) {
                std::vector<int> x(4, 1);
                std::vector<operation> operations(4);
                const auto start = [&](std::size_t i) { operations[i] = allfold::all_reduce.start(comm, x[i], sum()); };
                const std::vector<std::size_t> none;
                expect(test_all(operations) && test_any(operations) == 4 && test_some(operations) == none,
                       "empty ones");
                if (comm.rank() == 0) {
                    for (std::size_t i = 0; i < 3; ++i) start(i);
                    for (int turn = 0; turn < 3; ++turn)
                        expect(!test_all(operations) && !test_any(operations) && test_some(operations) == none,
                               "done without the other rank");
                    stage = 1;
                    reach(2);
                    std::optional<std::size_t> first;
                    while (!(first = test_any(operations)));
                    expect(first == 0 && x[0] == 2, "not the only one that can be done");
                    expect(!test_any(operations) && !test_all(operations), "more than the other rank has started");
                    stage = 3;
                    reach(4);
                    std::vector<std::size_t> some;
                    while (some.size() < 2)
                        for (const std::size_t which : test_some(operations)) some.push_back(which);
                    expect(some == std::vector<std::size_t>{1, 2} && test_any(operations) == 4, "each once");
                    start(3);
                    while (!test_all(operations));
                    expect(x == std::vector(4, 2) && test_any(operations) == 4, "all have been told");
                } else {
                    reach(1);
                    start(0);
                    operations[0].wait();
                    stage = 2;
                    reach(3);
                    for (std::size_t i = 1; i < 4; ++i) start(i);
                    stage = 4;
                    wait_all(operations);
                }
            },
            tuning);
    }
    SUCCEED();
}

TEST_CASE("test_all, test_any and test_some throw what went wrong") {
    for (const int way : {0, 1, 2}) {
        const auto outcomes = outcomes_on_ranks(2, [&](auto& comm) {
            const auto fails = allfold::associative([](int, int) -> int { throw std::runtime_error("boom"); });
            int x = 1;
            std::vector<operation> operations;
            operations.push_back(allfold::all_reduce.start(comm, x, fails));
            for (;;) {
                if (way == 0 && test_all(operations)) return;
                if (way == 1 && test_any(operations)) return;
                if (way == 2 && !test_some(operations).empty()) return;
            }
        });
        for (const auto& each : outcomes) CHECK((each.text == "boom" || each.code == errc::peer_failed));
    }
}

TEST_CASE("prepared operations join wait_all, wait_any and wait_some") {
    on_ranks(2, [](auto& comm) {
        std::vector<int> x(3, 1);
        std::vector<persistent> prepared;
        for (int& each : x) prepared.push_back(allfold::all_reduce.prepare(comm, each, sum()));
        expect(wait_any(prepared) == 3, "never started");
        for (int turn = 1; turn < 4; ++turn) {
            std::ranges::fill(x, turn);
            for (persistent& each : prepared) each.start();
            const std::size_t first = wait_any(prepared);
            expect(first < 3 && x[first] == 2 * turn, "not one that is done");
            std::size_t more = 0;
            for (std::vector<std::size_t> some; !(some = wait_some(prepared)).empty();) more += some.size();
            expect(more == 2 && wait_any(prepared) == 3, "not each once");
            std::ranges::fill(x, turn);
            for (persistent& each : prepared) each.start();
            wait_all(prepared);
            expect(x == std::vector(3, 2 * turn), "wrong sum");
        }
        int y = 1;
        operation op = allfold::all_reduce.start(comm, y, sum());
        prepared[0].start();
        prepared[1].start();
        wait_all(prepared[0], op, prepared[1]);
        expect(y == 2 && x == std::vector{12, 12, 6}, "not waited for");
    });
    SUCCEED();
}

TEST_CASE("prepared operations may be started in another order on every rank") {
    for (const int size : {2, 3, 5})
        for (const auto& tuning : {allfold::thread_tuning(), impatient})
            for (const std::size_t n : {std::size_t{3}, std::size_t{12000}})
                on_ranks(
                    size,
                    [&](auto& comm) {
                        constexpr std::size_t count = 4;
                        std::vector<std::vector<int>> x(count, std::vector<int>(n));
                        std::vector<persistent> prepared;
                        for (auto& each : x)
                            prepared.push_back(allfold::all_reduce.prepare(comm, each, sum(), allfold::ring()));
                        for (std::size_t turn = 0; turn < 12; ++turn) {
                            for (std::size_t i = 0; i < count; ++i)
                                std::ranges::fill(x[i], static_cast<int>(i + turn) + comm.rank());
                            const auto shift = static_cast<std::size_t>(comm.rank()) + turn;
                            for (std::size_t i = 0; i < count; ++i) prepared[(i + shift) % count].start();
                            if (turn % 3 == 0) allfold::barrier(comm);
                            for (std::size_t i = 0; i < count; ++i) {
                                const std::size_t each = (i * 3 + shift) % count;
                                prepared[each].wait();
                                const int total = size * static_cast<int>(each + turn) + size * (size - 1) / 2;
                                for (const int got : x[each]) expect(got == total, "wrong sum");
                            }
                        }
                    },
                    tuning);
    SUCCEED();
}

TEST_CASE("ranks that have prepared different operations get a mismatch, however long ago that was") {
    const auto outcomes = outcomes_on_ranks(2, [](auto& comm) {
        std::vector<int> x(50000);
        persistent op = allfold::broadcast.prepare(comm, x, allfold::root{comm.rank()});
        for (int i = 0; i < 100; ++i) allfold::barrier(comm);
        op();
    });
    bool told = false;
    for (const auto& each : outcomes) {
        INFO(each.text);
        CHECK(each.says("root"));
        told = told || each.code == errc::mismatch;
    }
    CHECK(told);
}

TEST_CASE("a prepared operation may be started anew while a slow rank is still in the start before") {
    for (const int size : {2, 4})
        for (const std::size_t n : {std::size_t{10}, std::size_t{2000}, std::size_t{100000}})
            on_ranks(size, [&](auto& comm) {
                std::vector<int> in(n), out(n), got(1);
                persistent scan = allfold::inclusive_scan.prepare(comm, in, out, sum());
                persistent from_last = allfold::broadcast.prepare(comm, got, allfold::root{size - 1});
                for (int turn = 0; turn < 30; ++turn) {
                    std::ranges::fill(in, turn);
                    if ((comm.rank() + turn) % 5 == 0) std::this_thread::yield();
                    if (comm.rank() == size - 1) got[0] = turn;
                    from_last.start();
                    scan();
                    from_last.wait();
                    for (const int each : out) expect(each == turn * (comm.rank() + 1), "wrong scan");
                    expect(got[0] == turn, "wrong broadcast");
                }
            });
    SUCCEED();
}

TEST_CASE("operations whose communicator has ended are tested, and waited for in any number, without it") {
    // The exception is not read: the other rank may free it, and the thread sanitizer does not see the reference count
    // that makes this safe.
    const auto succeeds = [](auto call) {
        try {
            call();
        } catch (...) {
            return false;
        }
        return true;
    };
    const auto check = [&](auto ask) {
        on_ranks(2, [&](auto& comm) {
            for (const bool completes : {true, false}) {
                int ended = 0;
                std::vector<operation> over(2);
                std::vector<int> x(1000, 1), y(1000, 1);
                const bool starts = completes || comm.rank() == 0;
                static_cast<void>(succeeds([&] {  // fails if the other rank leaves before this one is done
                    const auto both = allfold::subset(comm, allfold::rank_list{0, 1});
                    if (!starts) return;
                    over[0] = allfold::all_reduce.start(*both, x, sum());
                    over[1] = allfold::all_reduce.start(*both, y, sum());
                    for (operation& each : over) each.then([&ended] { ++ended; });
                    while (completes && ended < 2)
                        static_cast<void>(allfold::try_probe(*both, allfold::from{0}));  // asks neither
                    if (completes) allfold::barrier(*both);
                }));
                const bool finds_none_lost = succeeds([&] { ask(over); });
                expect(finds_none_lost == (completes || !starts), "what has ended before its end is told");
            }
        });
    };
    check([](auto& over) { static_cast<void>(allfold::test_all(over)); });
    check([](auto& over) { static_cast<void>(allfold::test_any(over)); });
    check([](auto& over) { static_cast<void>(allfold::test_some(over)); });
    check([](auto& over) { static_cast<void>(allfold::wait_some(over)); });
    check([](auto& over) { static_cast<void>(allfold::wait_any(over)); });
    SUCCEED();
}
