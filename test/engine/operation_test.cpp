// SPDX-License-Identifier: BSL-1.0
#include "allfold/engine/operation.hpp"

#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/standard_functors.hpp"
#include "allfold/collective.hpp"
#include "allfold/schedule/recursive_doubling.hpp"
#include "allfold/schedule/recursive_halving.hpp"
#include "allfold/schedule/ring.hpp"
#include "allfold/transport/self.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/sanitized.hpp"

using namespace test;
using allfold::operation;
using allfold::persistent;
using allfold::sum;

namespace {

/// Short messages are sent in a cell, those of 1000 ints in a buffer, and the longest are lent.
constexpr std::size_t lengths[] = {0, 1, 1000, 50000};

int total_of(int ranks) { return ranks * (ranks + 1) / 2; }

/// Data of an all_reduce in flight: rank r contributes r + 1 + `extra`.
struct job {
    job(int rank, std::size_t n, int extra = 0) : in(n, rank + 1 + extra), out(n, -1) {}
    void expect_sum(int ranks, int extra = 0) const {
        for (const int x : out) expect(x == total_of(ranks) + ranks * extra, "wrong sum " + std::to_string(x));
    }
    std::vector<int> in, out;
};

/// The text of the exception that `body` throws; empty if it throws none.
template <class Body>
std::string text_thrown(Body body) {
    try {
        body();
    } catch (const std::exception& e) {
        return e.what();
    }
    return {};
}

/// Waits until the flag is set. Other ranks may fall asleep meanwhile.
void await(const std::atomic<bool>& flag) {
    while (!flag) std::this_thread::yield();
}

}  // namespace

TEST_CASE("an operation is complete after wait, and when done says so") {
    for (const int size : {1, 2, 3, 8})
        on_ranks(size, [&](auto& comm) {
            for (const std::size_t n : lengths) {
                job waited(comm.rank(), n), polled(comm.rank(), n);
                operation first = allfold::all_reduce.start(comm, waited.in, waited.out, sum());
                operation second = allfold::all_reduce.start(comm, polled.in, polled.out, sum());
                while (!second.done()) std::this_thread::yield();
                polled.expect_sum(size);
                first.wait();
                first.wait();
                waited.expect_sum(size);
                expect(first.done(), "not done after wait");
            }
        });
    SUCCEED();
}

TEST_CASE("an operation that was never started is done") {
    operation none;
    CHECK(none.done());
    CHECK_NOTHROW(none.wait());
}

TEST_CASE("a lone rank's operation is done at once") {
    allfold::self comm;
    std::vector in{1, 2, 3}, out{0, 0, 0};
    operation op = allfold::all_reduce.start(comm, in, out, sum());
    CHECK(op.done());
    CHECK(out == in);
}

TEST_CASE("operations in flight may be waited for in another order on every rank") {
    for (const int size : {2, 3, 5})
        for (const auto& tuning : {allfold::thread_tuning(), impatient})
            on_ranks(
                size,
                [&](auto& comm) {
                    for (const std::size_t n : lengths) {
                        constexpr int count = 6;
                        std::vector<job> jobs;
                        std::vector<operation> operations;
                        for (int i = 0; i < count; ++i) jobs.emplace_back(comm.rank(), n, i);
                        for (auto& j : jobs) operations.push_back(allfold::all_reduce.start(comm, j.in, j.out, sum()));
                        for (int i = 0; i < count; ++i) {
                            const auto turn =
                                static_cast<std::size_t>((i * (comm.rank() % 2 ? 5 : 1) + comm.rank()) % count);
                            operations[turn].wait();
                            jobs[turn].expect_sum(size, static_cast<int>(turn));
                        }
                    }
                },
                tuning);
    SUCCEED();
}

TEST_CASE("blocking collectives pass by operations in flight") {
    for (const int size : {2, 3, 5})
        for (const auto& tuning : {allfold::thread_tuning(), impatient})
            on_ranks(
                size,
                [&](auto& comm) {
                    for (const std::size_t n : lengths) {
                        job early(comm.rank(), n), middle(comm.rank(), n, 1), late(comm.rank(), n, 2);
                        operation a = allfold::all_reduce.start(comm, early.in, early.out, sum(), allfold::ring());
                        allfold::all_reduce(comm, middle.in, middle.out, sum(), allfold::recursive_doubling());
                        middle.expect_sum(size, 1);
                        operation b =
                            allfold::all_reduce.start(comm, late.in, late.out, sum(), allfold::recursive_halving());
                        allfold::barrier(comm);
                        if (comm.rank() % 2) std::swap(a, b);
                        a.wait();
                        b.wait();
                        early.expect_sum(size);
                        late.expect_sum(size, 2);
                    }
                },
                tuning);
    SUCCEED();
}

TEST_CASE("more operations can be in flight than a channel has room for messages") {
    constexpr int count = 50;
    for (const int size : {2, 3, 5})
        for (const std::size_t n : {std::size_t{1}, std::size_t{200}, std::size_t{10000}})
            on_ranks(size, [&](auto& comm) {
                std::vector<job> jobs;
                for (int i = 0; i < count; ++i) jobs.emplace_back(comm.rank(), n, i);
                std::vector<operation> operations;
                for (auto& j : jobs) operations.push_back(allfold::all_reduce.start(comm, j.in, j.out, sum()));
                if (comm.rank() % 2)
                    for (std::size_t i = count; i-- > 0;) operations[i].wait();
                else
                    wait_all(operations);
                for (int i = 0; i < count; ++i) jobs[static_cast<std::size_t>(i)].expect_sum(size, i);
            });
    SUCCEED();
}

TEST_CASE("wait_all takes operations one by one as well as a range of them") {
    on_ranks(3, [](auto& comm) {
        job a(comm.rank(), 10), b(comm.rank(), 1000, 1);
        operation first = allfold::all_reduce.start(comm, a.in, a.out, sum());
        operation second = allfold::all_reduce.start(comm, b.in, b.out, sum());
        wait_all(first, second);
        a.expect_sum(3);
        b.expect_sum(3, 1);
    });
    SUCCEED();
}

TEST_CASE("wait_any and wait_some return when one of several operations is done") {
    std::atomic<bool> go = false;
    on_ranks(3, [&](auto& comm) {
        // Rank 2, on which the first operation depends, does not start before rank 0 has seen the second one complete.
        if (comm.rank() == 2) await(go);
        int late = comm.rank(), soon = comm.rank();
        std::vector<operation> operations;
        operations.push_back(allfold::broadcast.start(comm, late, allfold::root{2}));
        operations.push_back(allfold::broadcast.start(comm, soon, allfold::root{1}));
        if (comm.rank() == 0) {
            expect(wait_any(operations) == 1, "wait_any: not the operation that is done");
            expect(soon == 1, "not broadcast");
            go = true;
            expect(wait_some(operations) == std::vector<std::size_t>{0}, "wait_some: not the one that is left");
        }
        wait_all(operations);
        expect(late == 2 && soon == 1, "not broadcast");
    });
    SUCCEED();
}

TEST_CASE("wait_any and wait_some of no operations return at once") {
    std::vector<operation> none;
    CHECK(wait_any(none) == 0);
    CHECK(wait_some(none).empty());
    CHECK_NOTHROW(wait_all(none));
}

TEST_CASE("lambdas of one type with different captures fold at the same time, each with its own") {
    const auto modulo = [](int m) { return allfold::commutative([m](int a, int b) { return (a + b) % m; }); };
    static_assert(std::same_as<decltype(modulo(7)), decltype(modulo(11))>);
    for (const int size : {2, 3, 5})
        on_ranks(size, [&](auto& comm) {
            for (const std::size_t n : lengths) {
                std::vector<int> in(n, comm.rank() + 5), a(n), b(n);
                operation first = allfold::all_reduce.start(comm, in, a, modulo(7));
                operation second = allfold::all_reduce.start(comm, in, b, modulo(11));
                wait_all(second, first);
                const int all = total_of(size) + 4 * size;
                for (const int x : a) expect(x == all % 7, "not modulo 7");
                for (const int x : b) expect(x == all % 11, "not modulo 11");
            }
        });
    SUCCEED();
}

TEST_CASE("an operator is kept: it may be gone when the operation folds") {
    on_ranks(2, [](auto& comm) {
        std::string glue = "-";
        std::vector<std::string> x{std::string(1, static_cast<char>('a' + comm.rank()))};
        operation op;
        {
            const auto join = [glue](const std::string& a, const std::string& b) { return a + glue + b; };
            const auto temporary = allfold::associative(join);
            op = allfold::all_reduce.start(comm, x, temporary);
        }
        op.wait();
        expect(x[0] == "a-b", x[0]);
    });
    SUCCEED();
}

TEST_CASE("a persistent operation starts again and again, with the data of the moment") {
    for (const int size : {1, 2, 3, 5})
        for (const std::size_t n : lengths)
            on_ranks(size, [&](auto& comm) {
                job j(comm.rank(), n);
                std::vector<int> x(n);
                persistent out_of_place = allfold::all_reduce.prepare(comm, j.in, j.out, sum());
                persistent in_place = allfold::all_reduce.prepare(comm, x, sum(), allfold::recursive_halving());
                for (int turn = 0; turn < fewer_if_sanitized(20, 5); ++turn) {
                    std::ranges::fill(j.in, comm.rank() + 1 + turn);
                    std::ranges::fill(x, comm.rank() + 1 - turn);
                    out_of_place.start();
                    in_place();
                    out_of_place.wait();
                    j.expect_sum(size, turn);
                    for (const int each : x) expect(each == total_of(size) - size * turn, "wrong sum in place");
                }
            });
    SUCCEED();
}

TEST_CASE("every collective can be prepared") {
    on_ranks(3, [](auto& comm) {
        const int r = comm.rank();
        std::vector<int> x(3), y(3), block(1);
        persistent everything[] = {
            allfold::barrier.prepare(comm),
            allfold::broadcast.prepare(comm, y, allfold::root{1}),
            allfold::reduce.prepare(comm, x, y, sum(), allfold::root{2}),
            allfold::reduce_scatter.prepare(comm, x, block, sum()),
            allfold::all_gather.prepare(comm, block, y),
            allfold::inclusive_scan.prepare(comm, x, sum()),
            allfold::exclusive_scan.prepare(comm, x, sum()),
        };
        for (int turn = 0; turn < 3; ++turn) {
            std::ranges::fill(x, r + turn);
            for (persistent& each : everything) each();
            // x: r + turn; its inclusive scan: sum of 0..r + (r + 1)·turn; then the exclusive scan of that.
            expect(y == std::vector(3, 3 + 3 * turn), "wrong all_gather of the reduce_scatter");
            const int scans[] = {0, turn, 1 + 3 * turn};
            expect(x[0] == scans[r], "wrong exclusive scan of the inclusive scan");
        }
    });
    SUCCEED();
}

TEST_CASE("a prepared operation that is never started is destroyed without a wait") {
    on_ranks(2, [](auto& comm) {
        std::vector<int> x(10);
        {
            const persistent unused = allfold::all_reduce.prepare(comm, x, sum());
        }
        allfold::barrier(comm);
    });
    SUCCEED();
}

TEST_CASE("a view handed to prepare is copied: the variable may be gone when it is started") {
    on_ranks(2, [](auto& comm) {
        std::vector<int> x(5, 1);
        std::optional<std::span<int>> view(x);
        persistent op = allfold::all_reduce.prepare(comm, *view, sum());
        view = std::span<int>();
        op();
        expect(x == std::vector(5, 2), "the view has not been kept");
    });
    SUCCEED();
}

TEST_CASE("destroying an operation waits for it") {
    for (const std::size_t n : lengths)
        on_ranks(3, [&](auto& comm) {
            job dropped(comm.rank(), n), replaced(comm.rank(), n, 1), other(comm.rank(), n, 2);
            {
                const operation op = allfold::all_reduce.start(comm, dropped.in, dropped.out, sum());
            }
            dropped.expect_sum(3);
            operation op = allfold::all_reduce.start(comm, replaced.in, replaced.out, sum());
            op = allfold::all_reduce.start(comm, other.in, other.out, sum());
            replaced.expect_sum(3, 1);
            op.wait();
            other.expect_sum(3, 2);
        });
    SUCCEED();
}

TEST_CASE("an operation that fails in the background throws when it is waited for, every time") {
    struct boom : std::runtime_error {
        boom() : std::runtime_error("boom") {}
    };
    const auto fails = allfold::associative([](int, int) -> int { throw boom(); });
    const auto outcomes = outcomes_on_ranks(2, [&](auto& comm) {
        int x = 1;
        operation op = allfold::all_reduce.start(comm, x, fails);
        if (comm.rank() == 1) {
            while (true) static_cast<void>(op.done());
        }
        bool thrown = false;
        try {
            op.wait();
        } catch (const std::exception&) {
            thrown = true;
        }
        expect(thrown, "not thrown");
        op.wait();
    });
    for (const auto& each : outcomes) CHECK((each.text == "boom" || each.code == allfold::errc::peer_failed));
    CHECK((outcomes[0].text == "boom" || outcomes[1].text == "boom"));
}

TEST_CASE("when an exception destroys one operation, the others of its communicator do not pass for complete") {
    std::atomic<bool> thrown = false;
    const auto outcomes = outcomes_on_ranks(2, [&](auto& comm) {
        std::vector<int> x(5, 1), y(5, 1);
        if (comm.rank() == 1) await(thrown);
        operation survivor = allfold::all_reduce.start(comm, x, sum());
        try {
            const operation lost = allfold::all_reduce.start(comm, y, sum());
            throw std::runtime_error("left");
        } catch (const std::runtime_error&) {
        }
        thrown = true;
        survivor.wait();
    });
    for (const auto& each : outcomes) CHECK(each.code == allfold::errc::peer_failed);
    CHECK(outcomes[0].says("all_reduce"));
}

TEST_CASE("a function given to then is called once, at the end of the operation, before wait returns") {
    for (const int size : {1, 2, 3, 8})
        for (const std::size_t n : lengths)
            on_ranks(size, [&](auto& comm) {
                job first(comm.rank(), n), second(comm.rank(), n, 1);
                std::string calls;
                operation late = allfold::all_reduce.start(comm, first.in, first.out, sum());
                late.then([&] {
                    first.expect_sum(size);  // the result may be used already
                    calls += 'a';
                });
                late.then([&](const std::exception_ptr& failure) { calls += failure ? '!' : 'b'; });
                operation early = allfold::all_reduce.start(comm, second.in, second.out, sum());
                early.wait();  // makes progress on the other one as well
                late.wait();
                expect(calls == "ab", "called: " + calls);
                late.then([&] { calls += 'c'; });
                operation().then([&] { calls += 'd'; });
                late.wait();
                expect(calls == "abcd", "called at once: " + calls);
            });
    SUCCEED();
}

TEST_CASE("a function given to then may start other operations, and wait for them") {
    constexpr std::size_t rounds = 50;
    for (const int size : {1, 2, 3, 5})
        on_ranks(size, [&](auto& comm) {
            job mine(comm.rank(), 100), other(comm.rank(), 3, 1);
            std::vector<operation> chain(rounds);
            std::size_t ended = 0;
            const std::function<void()> next = [&] {
                mine.expect_sum(size);
                if (ended % 10 == 0) allfold::all_reduce.start(comm, other.in, other.out, sum()).wait();
                if (ended % 10 == 5) allfold::all_reduce(comm, other.in, other.out, sum());
                if (++ended == rounds) return;
                chain[ended] = allfold::all_reduce.start(comm, mine.in, mine.out, sum());
                chain[ended].then(next);
            };
            chain[0] = allfold::all_reduce.start(comm, mine.in, mine.out, sum());
            chain[0].then(next);
            while (ended < rounds) wait_all(chain);
            other.expect_sum(size, 1);
        });
    SUCCEED();
}

TEST_CASE("a prepared operation calls a function at the end of the start for which it was given") {
    on_ranks(2, [](auto& comm) {
        job mine(comm.rank(), 100);
        persistent again = allfold::all_reduce.prepare(comm, mine.in, mine.out, sum());
        int calls = 0;
        for (int start = 0; start < 6; ++start) {
            again.start();
            if (start % 2 == 0) again.then([&] { ++calls; });
            again.wait();
        }
        expect(calls == 3, "called " + std::to_string(calls) + " times");
    });
    SUCCEED();
}

TEST_CASE("a function given to then gets the failure if it takes one, and wait throws what it throws") {
    struct boom : std::runtime_error {
        boom() : std::runtime_error("boom") {}
    };
    const auto fails = allfold::associative([](int, int) -> int { throw boom(); });
    const auto outcomes = outcomes_on_ranks(2, [&](auto& comm) {
        int x = 1, heard = 0, called = 0;
        operation op = allfold::all_reduce.start(comm, x, fails);
        op.then([&](const std::exception_ptr& failure) { heard += failure ? 1 : 10; });
        op.then([&] { ++called; });
        try {
            op.wait();
        } catch (const std::exception&) {
        }
        expect(heard == 1 && called == 0, "heard " + std::to_string(heard) + ", called " + std::to_string(called));
        op.wait();
    });
    for (const auto& each : outcomes) CHECK((each.text == "boom" || each.code == allfold::errc::peer_failed));

    on_ranks(2, [](auto& comm) {
        int x = 1;
        operation op = allfold::all_reduce.start(comm, x, sum());
        const std::string told = text_thrown([&] {
            op.then([] { throw boom(); });  // called at once if the operation is done already
            op.wait();
        });
        expect(told == "boom", "told: " + told);
        expect(allfold::all_reduce(comm, 1, sum()) == 2, "the communicator works");
    });
}

TEST_CASE("a function given to then that waits for its own operation gets an error") {
    std::atomic<bool> is_set = false;
    on_ranks(2, [&](auto& comm) {
        job mine(comm.rank(), 50000);
        if (comm.rank() == 1) await(is_set);
        operation op = allfold::all_reduce.start(comm, mine.in, mine.out, sum());
        if (comm.rank() == 1) return op.wait();
        op.then([&] { op.wait(); });
        is_set = true;
        const std::string told = text_thrown([&] { op.wait(); });
        expect(told.find("a continuation must not wait for its own operation") != told.npos, told);
    });
    SUCCEED();
}

TEST_CASE("a function given to then may wait for any of several operations, if there is another one than its own") {
    std::array<std::atomic<bool>, 2> is_set{};
    on_ranks(2, [&](auto& comm) {
        job mine(comm.rank(), 50000), other(comm.rank(), 50000);
        std::vector<operation> both(2);
        for (const bool has_other : {true, false}) {
            if (comm.rank() == 1) await(is_set[has_other]);
            both[0] = allfold::all_reduce.start(comm, mine.in, mine.out, sum());
            if (has_other) both[1] = allfold::all_reduce.start(comm, other.in, other.out, sum());
            std::size_t first = 9;
            if (comm.rank() == 0) both[0].then([&] { first = allfold::wait_any(both); });
            if (comm.rank() == 0 && !has_other) both[0].then([&] { static_cast<void>(allfold::wait_some(both)); });
            if (comm.rank() == 0) is_set[has_other] = true;
            const std::string told = text_thrown([&] { both[0].wait(); });
            if (has_other)
                expect(told.empty() && (first == 1 || comm.rank() == 1), "the other one: " + told);
            else if (comm.rank() == 0)
                expect(told.find("must not wait for its own operation") != told.npos, "nothing else: " + told);
            if (has_other && comm.rank() == 1) both[1].wait();
        }
    });
    SUCCEED();
}

TEST_CASE("a prepared operation starts again although a function at its end has thrown") {
    on_ranks(2, [](auto& comm) {
        for (const std::size_t n : {std::size_t{1}, std::size_t{50000}}) {
            std::vector<int> x(n, 1);
            persistent again = allfold::all_reduce.prepare(comm, x, sum());
            for (int start = 0; start < 3; ++start) {
                again.start();
                const bool throws = start != 1 && comm.rank() == 0;
                std::string told;
                if (throws)  // called at once if the operation is done already
                    told = text_thrown([&] { again.then([] { throw std::runtime_error("boom"); }); });
                const std::string at_end = text_thrown([&] { again.wait(); });
                expect((told.empty() ? at_end : told) == (throws ? "boom" : ""), "what is thrown");
            }
            expect(x[0] == 8, "all three have been started");
        }
    });
    SUCCEED();
}

TEST_CASE("a function given to then gets a failure when its communicator ends") {
    for (const std::size_t n : lengths) {
        bool heard = false;
        job mine(0, n);
        operation op;
        allfold::run(2, [&](auto& comm) {
            if (comm.rank() != 0) return;
            op = allfold::all_reduce.start(comm, mine.in, mine.out, sum());
            op.then([&](const std::exception_ptr& failure) { heard = failure != nullptr; });
        });
        CHECK(heard);
    }
}
