// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/broadcast.hpp"
#include "allfold/collective/reduce_scatter.hpp"
#include "allfold/message.hpp"
#include "allfold/schedule/binomial.hpp"
#include "allfold/transport/thread.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/sanitized.hpp"

// Several operations in flight between threads: none of them blocks an older one.

using namespace test;
using namespace std::chrono_literals;
using allfold::operation;
using allfold::sum;
using allfold::thread_communicator;
using allfold::thread_tuning;
using allfold::window;

namespace {

constexpr std::chrono::seconds soon(60);

/// `run` with a shorter time limit: what hangs here hangs at once.
template <class Fn>
void on_ranks_soon(int size, Fn&& fn, const thread_tuning& tuning = {}) {
    const watchdog watch("operations in flight on " + std::to_string(size) + " ranks", soon);
    allfold::run(size, std::forward<Fn>(fn), tuning);
}

}  // namespace

TEST_CASE("an operation that some ranks start late does not keep an older one of many windows from going on") {
    for (int turn = 0; turn < 6; ++turn)
        on_ranks_soon(3, [](auto& comm) {
            std::vector<float> x(100000, 1.0F), y(1000, 1.0F);
            operation a = allfold::all_reduce.start(comm, x, sum(), window{4096});
            if (comm.rank() == 2) a.wait();
            operation b = allfold::reduce_scatter.start(comm, y, sum());
            a.wait();
            b.wait();
            expect(x.front() == 3 && x.back() == 3, "wrong sum");
        });
    SUCCEED();
}

TEST_CASE("each rank may wait for many operations in an order of its own") {
    for (unsigned turn = 0; turn < 20; ++turn)
        for (const std::size_t bytes : {112U, 1024U, 32768U})
            on_ranks_soon(4, [&](auto& comm) {
                const std::size_t count = 5 + turn % 6;
                std::mt19937 random(turn * 4 + static_cast<unsigned>(comm.rank()));
                std::vector<std::vector<int>> x(count, std::vector<int>(bytes / sizeof(int), 1));
                std::vector<operation> all;
                for (auto& each : x) {
                    all.push_back(allfold::all_reduce.start(comm, each, sum()));
                    if (random() % 4 == 0) all[random() % all.size()].wait();
                }
                std::shuffle(all.begin(), all.end(), random);
                allfold::wait_all(all);
                for (const auto& each : x) expect(each == std::vector(each.size(), 4), "wrong sum");
            });
    SUCCEED();
}

namespace {

/// Rank 0 starts everything before rank 1 does anything; then they wait for the communicators in opposite orders.
void start_many(std::size_t communicators, std::size_t each, const thread_tuning& tuning) {
    const std::size_t count = communicators * each;
    std::vector<std::unique_ptr<allfold::thread_world>> worlds;
    for (std::size_t i = 0; i < communicators; ++i)
        worlds.push_back(std::make_unique<allfold::thread_world>(2, tuning));
    std::atomic<bool> has_started = false;
    on_ranks_soon(2, [&](auto& comm) {
        std::vector<std::unique_ptr<thread_communicator>> all;
        for (auto& world : worlds) all.emplace_back(new thread_communicator(world->communicator(comm.rank())));
        while (comm.rank() == 1 && !has_started) std::this_thread::yield();
        std::vector<int> x(count, 1);
        std::vector<operation> ops(count);
        for (std::size_t i = 0; i < count; ++i)
            ops[i] = allfold::all_reduce.start(*all[i % communicators], x[i], sum());
        has_started = true;
        for (std::size_t c = 0; c < communicators; ++c)
            for (std::size_t i = comm.rank() == 0 ? c : communicators - 1 - c; i < count; i += communicators)
                ops[i].wait();
        for (const int one : x) expect(one == 2, "wrong sum");
    });
}

}  // namespace

TEST_CASE("thousands of operations are started before any other rank comes, on one communicator and on several") {
    constexpr std::size_t all = fewer_if_sanitized(1 << 16, 1 << 13);
    start_many(1, all, {});
    start_many(16, all / 16, {});
    start_many(2, all / 32, impatient);
    SUCCEED();
}

TEST_CASE("thousands of prepared operations are started in opposite orders") {
    on_ranks_soon(2, [](auto& comm) {
        std::vector<int> x(2000, 1);
        std::vector<allfold::persistent> ops;
        for (int& each : x) ops.push_back(allfold::all_reduce.prepare(comm, each, sum()));
        for (std::size_t i = 0; i < ops.size(); ++i) ops[comm.rank() == 0 ? i : ops.size() - 1 - i].start();
        wait_all(ops);
        for (const int each : x) expect(each == 2, "wrong sum");
    });
    SUCCEED();
}

TEST_CASE("a rank that asks an old operation again and again takes in what hinders it") {
    for (int turn = 0; turn < 20; ++turn)
        on_ranks_soon(4, [](auto& comm) {
            constexpr std::size_t count = 40;
            std::array<int, count> x{};
            std::vector<float> old(100000, 1.0F);
            operation oldest = allfold::all_reduce.start(comm, old, sum(), window{4096});
            if (comm.rank() == 3)
                while (!oldest.done()) std::this_thread::yield();
            std::vector<operation> all;
            for (int& each : x) all.push_back(allfold::all_reduce.start(comm, each = 1, sum()));
            allfold::wait_all(all);
            oldest.wait();
            for (const int each : x) expect(each == 4, "wrong sum");
            expect(old.back() == 4, "wrong sum");
        });
    SUCCEED();
}

TEST_CASE("a root that only runs ahead is held back by the slowest rank, also by one that it does not talk to") {
    for (const std::size_t n : {std::size_t{1}, std::size_t{500}}) {
        std::atomic<int> sent = 0;
        int seen = 0;
        on_ranks_soon(4, [&](auto& comm) {
            if (comm.rank() == 3) {
                std::this_thread::sleep_for(300ms);
                seen = sent;
            }
            std::vector<int> x(n);
            for (int turn = 0; turn < 5000; ++turn) {
                allfold::broadcast(comm, x, allfold::binomial());
                if (comm.rank() == 0) ++sent;
            }
        });
        INFO(n << " elements");
        CHECK(seen < 200);
    }
}

TEST_CASE("a root that only runs ahead is held back although a message of its own is still to be received") {
    constexpr int calls = 800, slow_calls = 40;
    std::atomic<int> sent = 0;
    int lead = 0;
    on_ranks_soon(2, [&](auto& comm) {
        std::vector<int> x(250), y(250);
        if (comm.rank() == 0) allfold::send(comm, y, allfold::to{1});
        for (int call = 0; call < calls; ++call) {
            if (comm.rank() == 1 && call < slow_calls) std::this_thread::sleep_for(300us);
            if (comm.rank() == 1 && call == slow_calls) lead = sent - call;
            allfold::broadcast(comm, x);
            if (comm.rank() == 0) ++sent;
        }
        if (comm.rank() == 1) allfold::receive(comm, y, allfold::from{0});
    });
    CHECK(lead < 200);
}

namespace {

/// One operation of a random program: the same on all ranks.
struct call {
    enum { reduces, scatters, broadcasts } what;
    std::size_t n;
    std::size_t window_bytes;
    int root;
};

/// What all ranks do, drawn from one seed. (When each of them waits is drawn by `part_of_program`.)
struct program {
    std::vector<call> calls;
    thread_tuning tuning;
    int ranks;

    explicit program(std::mt19937& random) {
        const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
        ranks = 2 + static_cast<int>(below(4));
        constexpr std::array tunings{thread_tuning(), thread_tuning{.spins = 0, .yields = 3},
                                     thread_tuning{.eager_bytes = 256}, impatient, test::noticing};
        tuning = tunings[below(tunings.size())];
        constexpr std::array<std::size_t, 14> sizes{0, 1, 27, 28, 29, 63, 64, 65, 300, 1000, 8191, 8192, 8193, 20000};
        constexpr std::array<std::size_t, 5> windows{0, 64, 1024, 4096, 32768};
        const std::size_t count = 1 + below(12);
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t n = sizes[below(sizes.size())];
            std::size_t bytes = windows[below(windows.size())];
            if (bytes != 0 && n * sizeof(int) / bytes > 100) bytes = 1024;  // not too many windows
            calls.push_back({static_cast<decltype(call::what)>(below(3)), n, bytes,
                             static_cast<int>(below(static_cast<std::size_t>(ranks)))});
        }
    }
};

/// One rank's part: it starts all calls in order, now and then waits for one that it has started, and in the end waits
/// for all, in an order of its own.
class part_of_program {
  public:
    part_of_program(thread_communicator& comm, const program& what, unsigned seed)
        : comm_(comm), what_(what), random_(seed * 31 + static_cast<unsigned>(comm.rank())) {}

    void play() {
        for (const call& each : what_.calls) {
            start(each);
            while (below(3) == 0) finish(below(running_.size()));
        }
        std::vector<std::size_t> order(running_.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::shuffle(order.begin(), order.end(), random_);
        for (const std::size_t i : order) finish(i);
        for (std::size_t i = 0; i < data_.size(); ++i) check(what_.calls[i], data_[i]);
    }

  private:
    std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }

    void start(const call& with) {
        auto& x = data_.emplace_back(with.n);
        for (std::size_t i = 0; i < with.n; ++i) x[i] = comm_.rank() + static_cast<int>(i);
        const window w{with.window_bytes};
        if (with.what == call::reduces)
            running_.push_back(allfold::all_reduce.start(comm_, x, sum(), w));
        else if (with.what == call::scatters)
            running_.push_back(allfold::reduce_scatter.start(comm_, x, sum(), w));
        else
            running_.push_back(allfold::broadcast.start(comm_, x, w, allfold::root{with.root}));
    }
    void finish(std::size_t which) {
        switch (below(4)) {
            case 0:
                while (!running_[which].done()) std::this_thread::yield();
                break;
            case 1: static_cast<void>(running_[which].done()); [[fallthrough]];
            default: running_[which].wait();
        }
    }
    void check(const call& with, const std::vector<int>& x) const {
        const int P = comm_.size(), sum_of_ranks = P * (P - 1) / 2;
        const allfold::partition blocks = allfold::partition::even(with.n, P);
        for (std::size_t i = 0; i < with.n; ++i) {
            const int at = static_cast<int>(i);
            if (with.what == call::broadcasts)
                expect(x[i] == with.root + at, "wrong broadcast");
            else if (with.what == call::reduces ||
                     (i >= blocks.offset(comm_.rank()) && i < blocks.offset(comm_.rank() + 1)))
                expect(x[i] == sum_of_ranks + P * at, "wrong sum");
        }
    }

    thread_communicator& comm_;
    const program& what_;
    std::mt19937 random_;
    std::vector<std::vector<int>> data_ = reserved();
    std::vector<operation> running_;

    std::vector<std::vector<int>> reserved() const {
        std::vector<std::vector<int>> data;
        data.reserve(what_.calls.size());
        return data;
    }
};

constexpr unsigned programs = fewer_if_sanitized(300, 40), turns_of_each = fewer_if_sanitized(12, 10);

}  // namespace

TEST_CASE("any operations in flight come to their end, in whatever order each rank waits for them") {
    const auto seed = std::random_device()();
    for (unsigned i = 0; i < programs; ++i) {
        const unsigned own = seed + i * 1000;
        std::mt19937 random(own);
        const program what(random);
        INFO("seed " << own);
        const watchdog watch("random operations, seed " + std::to_string(own), soon);
        allfold::run(
            what.ranks,
            [&](auto& comm) {
                for (unsigned turn = 0; turn < turns_of_each; ++turn) part_of_program(comm, what, own + turn).play();
            },
            what.tuning);
    }
    SUCCEED();
}
