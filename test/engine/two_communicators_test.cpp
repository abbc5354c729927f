// SPDX-License-Identifier: BSL-1.0
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
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

using namespace test;
using namespace std::chrono_literals;
using allfold::from;
using allfold::mode;
using allfold::operation;
using allfold::receive;
using allfold::ring;
using allfold::send;
using allfold::sum;
using allfold::tag;
using allfold::to;

namespace {

constexpr std::size_t length = 20000;

void expect_total(const std::vector<double>& x, double each) {
    for (const double got : x) expect(got == each, "wrong sum " + std::to_string(got));
}

}  // namespace

TEST_CASE("operations on two communicators may be waited for in opposite orders") {
    for (const int size : {2, 3})
        for (const auto& tuning : {allfold::thread_tuning(), impatient})
            on_two_communicators(
                size,
                [&](auto& a, auto& b) {
                    std::vector<double> x(length, 1), y(length, 2);
                    operation first = allfold::all_reduce.start(a, x, sum(), ring());
                    operation second = allfold::all_reduce.start(b, y, sum(), ring());
                    if (a.rank() % 2) std::swap(first, second);
                    first.wait();
                    second.wait();
                    expect_total(x, size);
                    expect_total(y, 2 * size);
                },
                tuning);
    SUCCEED();
}

TEST_CASE("a blocking collective makes progress on the operations of another communicator") {
    for (const auto& tuning : {allfold::thread_tuning(), impatient})
        on_two_communicators(
            2,
            [](auto& a, auto& b) {
                std::vector<double> x(length, 1);
                operation op = allfold::all_reduce.start(a, x, sum(), ring());
                if (a.rank() == 1) op.wait();
                allfold::barrier(b);
                op.wait();
                expect_total(x, 2);
            },
            tuning);
    SUCCEED();
}

TEST_CASE("testing one operation makes progress on those of all communicators") {
    on_two_communicators(2, [](auto& a, auto& b) {
        std::vector<double> x(length, 1), y(length, 2);
        operation first = allfold::all_reduce.start(a, x, sum(), ring());
        operation second = allfold::all_reduce.start(b, y, sum(), ring());
        if (a.rank() == 1) std::swap(first, second);
        while (!first.done()) std::this_thread::yield();
        while (!second.done()) std::this_thread::yield();
        expect_total(x, 2);
        expect_total(y, 4);
    });
    SUCCEED();
}

TEST_CASE("wait_any returns whichever operation is done first, on whichever communicator") {
    for (const auto& tuning : {allfold::thread_tuning(), impatient}) {
        std::atomic<bool> go = false;
        on_two_communicators(
            2,
            [&](auto& a, auto& b) {
                int late = a.rank(), soon = a.rank();
                if (a.rank() == 1) {
                    operation second = allfold::broadcast.start(b, soon, allfold::root{1});
                    second.wait();
                    while (!go) std::this_thread::yield();
                    allfold::broadcast(a, late, allfold::root{1});
                    return;
                }
                std::vector<operation> operations;
                operations.push_back(allfold::broadcast.start(a, late, allfold::root{1}));
                operations.push_back(allfold::broadcast.start(b, soon, allfold::root{1}));
                expect(wait_any(operations) == 1, "not the one that is done");
                expect(soon == 1, "not broadcast");
                go = true;
                wait_all(operations);
            },
            tuning);
    }
    SUCCEED();
}

TEST_CASE("wait_any notices that a rank has left any of its communicators") {
    for (const auto& tuning : {allfold::thread_tuning(), impatient}) {
        const watchdog watch("who has left", 40s);
        std::atomic<bool> told = false;
        allfold::thread_world second(2, tuning);
        std::string text;
        allfold::run(
            2,
            [&](auto& a) {
                int x = 1, y = 1;
                if (a.rank() == 1) {
                    static_cast<void>(second.communicator(1));  // rank 1 leaves this one
                    while (!told) std::this_thread::yield();
                    allfold::all_reduce(a, x, sum());
                    return;
                }
                std::vector<operation> operations;
                operations.push_back(allfold::all_reduce.start(a, x, sum()));
                allfold::thread_communicator b = second.communicator(0);
                operations.push_back(allfold::all_reduce.start(b, y, sum()));
                try {
                    static_cast<void>(wait_any(operations));
                } catch (const allfold::error& e) {
                    text = e.what();
                }
                told = true;
                operations[0].wait();
                expect(x == 2, "wrong sum");
                operations.clear();
            },
            tuning);
        INFO(text);
        CHECK(text.find("rank 1") != std::string::npos);
        CHECK(text.find("returned") != std::string::npos);
    }
}

TEST_CASE("a failure on one communicator leaves the other one alone") {
    on_two_communicators(2, [](auto& a, auto& b) {
        const auto fails = allfold::associative([](int, int) -> int { throw std::runtime_error("boom"); });
        int x = 1;
        std::vector<double> y(length, 1);
        operation broken = allfold::all_reduce.start(a, x, fails);
        operation fine = allfold::all_reduce.start(b, y, sum(), ring());
        fine.wait();
        expect_total(y, 2);
        bool thrown = false;
        try {
            broken.wait();
        } catch (const std::runtime_error&) {
            thrown = true;
        }
        expect(thrown, "not thrown");
    });
    SUCCEED();
}

TEST_CASE("an operation may be waited for in another thread than the one that started it") {
    for (const auto& tuning : {allfold::thread_tuning(), impatient})
        for (int turn = 0; turn < 20; ++turn)
            on_two_communicators(
                2,
                [](auto& a, auto& b) {
                    std::vector<double> x(length, 1), y(length, 2);
                    operation first = allfold::all_reduce.start(a, x, sum(), ring());
                    operation second = allfold::all_reduce.start(b, y, sum(), ring());
                    std::exception_ptr thrown;
                    std::thread helper([&] {  // from here on `a` is used by this thread
                        try {
                            first.wait();
                            expect_total(x, 2);
                            allfold::barrier(a);
                        } catch (...) {
                            thrown = std::current_exception();
                        }
                    });
                    second.wait();
                    expect_total(y, 4);
                    allfold::barrier(b);
                    helper.join();
                    if (thrown) std::rethrow_exception(thrown);
                },
                tuning);
    SUCCEED();
}

TEST_CASE("a thread may end and leave an operation in flight to another one") {
    for (int turn = 0; turn < 20; ++turn)
        on_two_communicators(2, [](auto& a, auto&) {
            std::vector<double> x(length, 1);
            operation op;
            std::thread([&] { op = allfold::all_reduce.start(a, x, sum(), ring()); }).join();
            op.wait();
            expect_total(x, 2);
        });
    SUCCEED();
}

TEST_CASE("operations on two communicators that have gone to another thread are waited for, or tested, together") {
    using operations = std::vector<operation>;
    const auto check = [](auto wait_for_all) {
        on_two_communicators(2, [&](auto& a, auto& b) {
            std::vector<double> x(length), y(length);
            const std::vector<double> sent(length, 1);
            if (a.rank() == 1) {  // in the opposite order
                send(b, sent, to{0}, mode::synchronous);
                return send(a, sent, to{0}, mode::synchronous);
            }
            operations all(2);
            std::thread([&] {
                all[0] = receive.start(a, x, from{1});
                all[1] = receive.start(b, y, from{1});
            }).join();
            wait_for_all(all);
            expect(x == sent && y == sent, "not received");
        });
    };
    const auto again_and_again = [](auto test) {
        return [=](operations& all) {
            while (!test(all)) std::this_thread::yield();
            allfold::wait_all(all);
        };
    };
    check([](operations& all) { allfold::wait_all(all); });
    check([](operations& all) { allfold::wait_all(all[0], all[1]); });
    check([](operations& all) {
        expect(allfold::wait_any(all) == 1, "another one");
        allfold::wait_all(all);
    });
    check([](operations& all) {
        expect(allfold::wait_some(all) == std::vector<std::size_t>{1}, "others");
        allfold::wait_all(all);
    });
    check(again_and_again([](operations& all) { return allfold::test_all(all); }));
    check(again_and_again([](operations& all) { return allfold::test_any(all).has_value(); }));
    check(again_and_again([](operations& all) { return !allfold::test_some(all).empty(); }));
    SUCCEED();
}

TEST_CASE("the first call on another thread waits for the one in which the previous thread makes progress") {
    struct in_flight {
        operation first, other;
        allfold::message found;
        bool other_is_cancelled = false;
    };
    const auto check = [](auto call) {
        std::atomic<bool> may_send = false, is_called = false, is_over = false;
        on_two_communicators(2, [&](auto& a, auto& b) {
            std::vector<double> x(length), y(length);
            int word = 0;
            if (a.rank() == 1) {
                send(a, word, to{0}, tag{3});
                while (!may_send) std::this_thread::yield();
                send(a, x, to{0}, tag{1});
                send(b, word, to{0});
                return send(a, x, to{0}, tag{2});
            }
            in_flight all{receive.start(a, x, from{1}, tag{1}), receive.start(a, y, from{1}, tag{2}), {}, false};
            all.found = allfold::probe(a, from{1}, tag{3});
            all.first.then([&] {
                is_called = true;
                std::this_thread::sleep_for(20ms);
                is_over = true;
            });
            bool was_over = false;
            outcome called;
            std::thread other([&] {
                while (!is_called) std::this_thread::yield();
                called = outcome_of([&] { call(all); });
                was_over = is_over;
            });
            may_send = true;
            receive(b, word, from{1});
            other.join();
            expect(called.succeeded(), called.text);
            expect(was_over, "the other thread was still at it");
            all.other.wait();
            if (all.other_is_cancelled) receive(a, y, from{1}, tag{2});
        });
    };
    check([](in_flight& all) { all.first.wait(); });
    check([](in_flight& all) { all.other.then([] {}); });
    check([](in_flight& all) { all.found = {}; });
    check([](in_flight& all) { all.other_is_cancelled = all.other.cancel(); });
    SUCCEED();
}

TEST_CASE("operations through a decorator and past it make progress on each other") {
    allfold::trace_recorder recorder(2);
    on_two_communicators(2, [&](auto& a, auto& b) {
        allfold::traced watched(a, recorder);
        std::vector<double> x(length, 1), y(length, 2), z(length, 3);
        operation operations[] = {allfold::all_reduce.start(watched, x, sum(), ring()),
                                  allfold::all_reduce.start(a, y, sum(), ring()),
                                  allfold::all_reduce.start(b, z, sum(), ring())};
        for (std::size_t i = 0; i < 3; ++i) operations[a.rank() == 0 ? i : 2 - i].wait();
        expect_total(x, 2);
        expect_total(y, 4);
        expect_total(z, 6);
    });
    SUCCEED();
}

TEST_CASE("a wait on a communicator of one rank makes progress on others, and goes on as long as that may help") {
    on_ranks(2, [](auto& comm) {
        allfold::self own;
        std::vector<double> sums(length, 1);
        int x = 0, y = 0;
        if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        operation there = allfold::all_reduce.start(comm, sums, sum(), ring());
        if (comm.rank() == 1) return there.wait();
        there.then([&] { send(own, 7, to{0}); });
        std::array both{receive.start(own, x, from{0}), std::move(there)};
        expect(allfold::wait_any(both) <= 1, "one of them is done");
        allfold::wait_all(both);
        expect(x == 7, "received at the end of the other one");
        expect_total(sums, 2);
        const outcome vain = outcome_of([&] { receive(own, y, from{0}); });
        expect(vain.code == allfold::errc::bad_argument && vain.says("waits for a message from itself"), vain.text);
    });
    on_ranks(2, [](auto& comm) {
        allfold::self own;
        std::vector<double> sums(length, 1);
        int x = 0;
        if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        operation there = allfold::all_reduce.start(comm, sums, sum(), ring());
        if (comm.rank() == 1) return there.wait();
        there.then([&] { send(own, 7, to{0}); });
        receive(own, x, from{0});
        expect(x == 7, "received at the end of the other one");
    });
    SUCCEED();
}
