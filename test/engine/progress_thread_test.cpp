// SPDX-License-Identifier: BSL-1.0
#include "allfold/engine/progress_thread.hpp"

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
#include "allfold/algebra/standard_functors.hpp"
#include "allfold/collective.hpp"
#include "allfold/message.hpp"
#include "allfold/schedule/ring.hpp"
#include "allfold/transport/self.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/two_worlds.hpp"
#include "test/support/watchdog.hpp"

using namespace test;
using allfold::operation;
using allfold::progress_thread;
using allfold::sum;

namespace {

/// Short messages are sent in a cell, those of 1000 ints in a buffer, and the longest are lent.
constexpr std::size_t lengths[] = {0, 1, 1000, 50000};

}  // namespace

TEST_CASE("a progress thread makes operations complete while their owner computes") {
    for (const int size : {1, 2, 3, 5})
        on_ranks(size, [&](auto& comm) {
            std::atomic<int> ended = 0;
            progress_thread helper(comm);
            for (const std::size_t n : lengths) {
                std::vector<int> x(n, comm.rank() + 1);
                operation sums = helper.start([&](auto& mine) {
                    operation own = allfold::all_reduce.start(mine, x, sum());
                    own.then([&] { ++ended; });
                    return own;
                });
                while (ended == 0) std::this_thread::yield();  // this thread makes no call to allfold
                ended = 0;
                for (const int each : x) expect(each == size * (size + 1) / 2, "sum");
                while (!sums.done()) std::this_thread::yield();
            }
        });
    SUCCEED();
}

TEST_CASE("operations of a progress thread may be waited for in any order, and with others") {
    for (const int size : {2, 3})
        on_two_communicators(size, [&](auto& comm, auto& other) {
            constexpr std::size_t count = 20;
            std::vector<std::vector<int>> data;
            std::vector<operation> all;
            progress_thread helper(comm);
            for (std::size_t i = 0; i < count; ++i) data.emplace_back(lengths[i % 4], comm.rank());
            for (std::size_t i = 0; i < count; ++i)
                if (i % 3 == 2)
                    all.push_back(allfold::all_reduce.start(other, data[i], sum()));
                else
                    all.push_back(
                        helper.start([&, i](auto& mine) { return allfold::all_reduce.start(mine, data[i], sum()); }));
            int calls = 0;
            for (operation& each : all) each.then([&calls] { ++calls; });  // called by this thread
            std::size_t told = 0;
            while (allfold::wait_any(all) < count) ++told;
            expect(told == count && calls == static_cast<int>(count), "told " + std::to_string(told));
            for (const auto& each : data)
                for (const int x : each) expect(x == size * (size - 1) / 2, "sum");
        });
    SUCCEED();
}

TEST_CASE("wait_any of an operation of a progress thread and of another one notices that the other one waits in vain") {
    const watchdog watch("a progress thread and another communicator");
    allfold::thread_world first(2), second(2);
    {
        const auto gone = second.communicator(1);
    }
    std::atomic<bool> may_send = false;
    std::thread peer([&] {
        auto comm = first.communicator(1);
        while (!may_send) std::this_thread::yield();
        allfold::send(comm, 7, allfold::to{0});
    });
    {
        auto comm = first.communicator(0), other = second.communicator(0);
        int x = 0, y = 0;
        progress_thread helper(comm);
        std::vector<operation> all;
        all.push_back(helper.start([&](auto& mine) { return allfold::receive.start(mine, x, allfold::from{1}); }));
        all.push_back(allfold::receive.start(other, y, allfold::from{1}));
        const outcome vain = outcome_of([&] { static_cast<void>(allfold::wait_any(all)); });
        CHECK(vain.code == allfold::errc::peer_failed);
        may_send = true;
        CHECK(allfold::wait_any(all) == 0);
        CHECK(x == 7);
    }
    peer.join();
}

TEST_CASE("a progress thread runs blocking calls too, one after the other") {
    on_ranks(3, [](auto& comm) {
        std::string text(1, static_cast<char>('a' + comm.rank())), word = text;
        {
            progress_thread helper(comm);
            const operation first = helper.start([&](auto& mine) {
                allfold::all_reduce(
                    mine, text, allfold::associative([](const std::string& a, const std::string& b) { return a + b; }));
            });
            const operation second =
                helper.start([&](auto& mine) { allfold::broadcast(mine, word, allfold::root{2}); });
        }
        expect(text == "abc" && word == "c", text + " and " + word);
        allfold::barrier(comm);  // the communicator belongs to the rank again
    });
    SUCCEED();
}

TEST_CASE("what goes wrong on a progress thread is thrown by whoever waits") {
    struct boom : std::runtime_error {
        boom() : std::runtime_error("boom") {}
    };
    const auto outcomes = outcomes_on_ranks(2, [](auto& comm) {
        int x = 1, y = 1;
        progress_thread helper(comm);
        operation bad = helper.start([&](auto& mine) {
            return allfold::all_reduce.start(mine, x, allfold::associative([](int, int) -> int { throw boom(); }));
        });
        std::string heard;
        try {
            bad.wait();
        } catch (const std::exception& e) {
            heard = e.what();
        }
        expect(heard.find("boom") != std::string::npos, "heard: " + heard);
        operation after = helper.start([&](auto& mine) { return allfold::all_reduce.start(mine, y, sum()); });
        after.wait();
    });
    for (const auto& each : outcomes) CHECK(each.code == allfold::errc::peer_failed);

    on_ranks(2, [](auto& comm) {
        progress_thread helper(comm);
        operation bad = helper.start([](auto&) { throw boom(); });
        std::string told;
        try {
            bad.wait();
        } catch (const boom& e) {
            told = e.what();
        }
        expect(told == "boom", "told: " + told);
    });
}

TEST_CASE("an exception at the owner of a progress thread releases the other ranks, and nobody touches its memory") {
    for (const std::size_t n : lengths) {
        if (n == 0) continue;
        const auto outcomes = outcomes_on_ranks(3, [&](auto& comm) {
            progress_thread helper(comm);
            std::vector<int> x(n, 1), y(n, 1);
            if (comm.rank() == 1) throw std::runtime_error("left");
            operation a = helper.start([&](auto& mine) { return allfold::all_reduce.start(mine, x, sum()); });
            if (comm.rank() == 2) {
                operation b = helper.start([&](auto& mine) { return allfold::all_reduce.start(mine, y, sum()); });
                throw std::runtime_error("left with two in flight");
            }
            a.wait();
        });
        CHECK(outcomes[0].code == allfold::errc::peer_failed);
    }
}

TEST_CASE("an operation destroyed by an exception is aborted although other ranks have not started it") {
    std::atomic<bool> left = false;
    const auto outcomes = outcomes_on_ranks(2, [&](auto& comm) {
        struct at_end {
            std::atomic<bool>& flag;
            ~at_end() { flag = true; }
        };
        int x = 1;
        progress_thread helper(comm);
        const auto sum_up = [&](auto& mine) { return allfold::all_reduce.start(mine, x, sum()); };
        if (comm.rank() == 0) {
            while (!left) std::this_thread::yield();
            helper.start(sum_up).wait();
        } else {
            const at_end last{left};
            const operation lost = helper.start(sum_up);
            throw std::runtime_error("left");
        }
    });
    CHECK(outcomes[0].code == allfold::errc::peer_failed);
}

TEST_CASE("an operation may outlive its progress thread, which ends when all is done") {
    on_ranks(2, [](auto& comm) {
        std::vector<int> x(1000, 1);
        operation sums;
        std::optional<progress_thread<allfold::thread_communicator>> helper(comm);
        sums = helper->start([&](auto& mine) { return allfold::all_reduce.start(mine, x, sum()); });
        helper.reset();
        expect(x[0] == 2, "done when it ends");
        expect(sums.done(), "and says so");
        sums.wait();

        std::vector<operation> several;
        helper.emplace(comm);
        several.push_back(helper->start([&](auto& mine) { return allfold::all_reduce.start(mine, x, sum()); }));
        helper.reset();
        expect(allfold::test_all(several) && x[0] == 4, "tested with others");
    });
    SUCCEED();
}

TEST_CASE("a progress thread ends although it was refused to wait for a result, or has attached a function to one") {
    for (const bool waits : {true, false}) {
        std::atomic<bool> is_told = false;
        on_ranks(2, [&](auto& comm) {
            int x = 1, calls = 0;
            if (comm.rank() == 1) {
                while (!is_told) std::this_thread::yield();
                allfold::all_reduce(comm, x, sum());
                return;
            }
            operation first, second;
            std::thread::id called;
            {
                progress_thread helper(comm);
                first = helper.start([&](auto& mine) { return allfold::all_reduce.start(mine, x, sum()); });
                first.then([&] { called = std::this_thread::get_id(); });
                second = helper.start([&](auto&) {
                    std::this_thread::sleep_for(
                        std::chrono::milliseconds(20));  // until the owner waits in a destructor
                    const outcome told = outcome_of([&] {
                        if (waits) return first.wait();
                        first.then([&] { ++calls; });
                    });
                    is_told = true;
                    expect(waits ? told.code == allfold::errc::bad_argument : told.succeeded(), told.text);
                });
            }
            expect(x == 2 && called == std::this_thread::get_id() && calls == (waits ? 0 : 1), "it has ended");
            second.wait();
            first.wait();
        });
    }
    SUCCEED();
}

TEST_CASE("a progress thread rejects work that it would have to wait for itself") {
    on_ranks(2, [](auto& comm) {
        int x = 1;
        progress_thread helper(comm);
        operation outer = helper.start([&](auto& mine) {
            operation own = allfold::all_reduce.start(mine, x, sum());
            own.then([&] { helper.start([](auto&) {}).wait(); });
            return own;
        });
        const outcome told = outcome_of([&] { outer.wait(); });
        expect(told.code == allfold::errc::bad_argument && told.says("its own thread would wait for itself"),
               told.text);
    });
    std::atomic<bool> is_told = false;
    on_ranks(2, [&](auto& comm) {
        int x = 1, calls = 0;
        if (comm.rank() == 1) {
            while (!is_told) std::this_thread::yield();
            allfold::all_reduce(comm, x, sum());
            return;
        }
        progress_thread helper(comm);
        operation first = helper.start([&](auto& mine) { return allfold::all_reduce.start(mine, x, sum()); });
        first.then([&] { ++calls; });
        operation waits = helper.start([&](auto&) { first.wait(); });
        const outcome wait = outcome_of([&] { waits.wait(); });
        operation tests = helper.start([&](auto&) {
            while (!first.done()) {
            }
        });
        const outcome test = outcome_of([&] { tests.wait(); });
        for (const outcome& told : {wait, test})
            expect(told.code == allfold::errc::bad_argument && told.says("its own thread would wait for itself"),
                   told.text);
        is_told = true;
        first.wait();
        expect(x == 2 && calls == 1, "after that");
    });
    SUCCEED();
}

TEST_CASE("two communicators waited for in opposite orders by their progress threads end") {
    on_two_communicators(2, [](auto& one, auto& two) {
        std::vector<int> x(50000, 1), y(50000, 1);
        progress_thread first(one), second(two);
        operation a = first.start([&](auto& mine) { return allfold::all_reduce.start(mine, x, sum()); });
        operation b = second.start([&](auto& mine) { return allfold::all_reduce.start(mine, y, sum()); });
        if (one.rank() == 0) std::swap(a, b);
        a.wait();
        b.wait();
        expect(x.back() == 2 && y.back() == 2, "sums");
    });
    SUCCEED();
}

TEST_CASE("an exception that destroys a progress thread before its operations releases the other ranks") {
    const auto outcomes = outcomes_on_ranks(2, [](auto& comm) {
        int x = 1, y = 0;
        operation a;
        if (comm.rank() == 0) {
            progress_thread helper(comm);
            a = helper.start([&](auto& mine) { return allfold::all_reduce.start(mine, x, sum()); });
            throw std::runtime_error("left");
        }
        allfold::receive(comm, y, allfold::from{0});
        allfold::all_reduce(comm, x, sum());
    });
    CHECK(outcomes[0].text == "left");
    CHECK(outcomes[1].says("rank 0 failed: left"));
    on_ranks(2, [](auto& comm) {
        int x = 1;
        try {
            progress_thread helper(comm);
            helper.start([&](auto& mine) { return allfold::all_reduce.start(mine, x, sum()); }).wait();
            throw std::runtime_error("nothing in flight");
        } catch (const std::runtime_error&) {
        }
        allfold::all_reduce(comm, x, sum());
        expect(x == 4, "the communicator is intact");
    });
}

TEST_CASE("a progress thread that ends makes progress elsewhere, and on what functions at the end start on it") {
    on_two_communicators(2, [](auto& one, auto& two) {
        std::vector<int> x(50000, 1);
        int y = 1, z = 1;
        operation first, next;
        operation elsewhere = allfold::all_reduce.start(two, x, sum(), allfold::ring{});
        if (one.rank() == 1) elsewhere.wait();
        {
            progress_thread helper(one);
            first = helper.start([&](auto& mine) { return allfold::all_reduce.start(mine, y, sum()); });
            first.then(
                [&] { next = helper.start([&](auto& mine) { return allfold::all_reduce.start(mine, z, sum()); }); });
        }
        expect(y == 2 && z == 2, "done when it ends");
        next.wait();
        elsewhere.wait();
        expect(x.back() == 2, "elsewhere");
    });
    SUCCEED();
}
