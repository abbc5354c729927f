// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/engine/options.hpp"
#include "allfold/schedule/ring.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/patience.hpp"
#include "test/support/ranks.hpp"
#include "test/support/two_worlds.hpp"

using namespace test;
using namespace std::chrono_literals;
using allfold::deadline;
using allfold::errc;
using allfold::operation;
using allfold::persistent;
using allfold::sum;

using fractional_seconds = std::chrono::duration<double>;

namespace {

bool have_succeeded(const std::vector<outcome>& all) {
    return std::ranges::all_of(all, [](const outcome& each) { return each.succeeded(); });
}

}  // namespace

TEST_CASE("a deadline that is kept in a variable counts from each call") {
    CHECK(succeeds_with_patience([](auto patience) {
        return have_succeeded(outcomes_on_ranks(2, [patience](auto& comm) {
            const deadline limit{patience};
            int x = 1;
            for (int turn = 0; turn < 3; ++turn) {
                std::this_thread::sleep_for(patience * 2 / 3);
                allfold::all_reduce(comm, x, sum(), limit);
                operation op = allfold::all_reduce.start(comm, x, sum(), limit);
                op.wait();
            }
        }));
    }));
}

TEST_CASE("the deadline of a prepared operation counts from each start") {
    CHECK(succeeds_with_patience([](auto patience) {
        return have_succeeded(outcomes_on_ranks(2, [patience](auto& comm) {
            int x = 1;
            persistent op = allfold::all_reduce.prepare(comm, x, sum(), deadline{patience});
            for (int turn = 0; turn < 3; ++turn) {
                std::this_thread::sleep_for(patience * 2 / 3);
                op();
            }
        }));
    }));
}

TEST_CASE("the deadline of a prepared operation passes at a later start too") {
    CHECK(succeeds_with_patience([](auto patience) {
        std::atomic<bool> is_first_done = false;
        late_call late(1);
        const auto outcomes = outcomes_on_ranks(2, [&](auto& comm) {
            int x = 1;
            persistent op = allfold::all_reduce.prepare(comm, x, sum(), deadline{comm.rank() == 0 ? patience : 100s});
            op();
            is_first_done = true;
            late(comm, [&] { op(); });
        });
        for (const auto& each : outcomes) {
            INFO(each.text);
            CHECK(each.code == errc::timeout);
        }
        return is_first_done.load();
    }));
}

TEST_CASE("a huge deadline never passes") {
    using std::chrono::steady_clock;
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const deadline limits[] = {deadline{std::chrono::seconds::max()},     deadline{std::chrono::hours::max()},
                               deadline{steady_clock::duration::max()},   deadline{fractional_seconds(infinity)},
                               deadline{steady_clock::time_point::max()}, deadline{fractional_seconds(1e300)}};
    on_ranks(2, [&](auto& comm) {
        for (const deadline& limit : limits) {
            int x = 1, y = 1;
            if (comm.rank() == 1) std::this_thread::sleep_for(5ms);
            operation op = allfold::all_reduce.start(comm, y, sum(), limit);
            if (comm.rank() == 0) std::this_thread::sleep_for(5ms);
            allfold::all_reduce(comm, x, sum(), limit);
            op.wait();
            expect(x == 2 && y == 2, "wrong sum");
        }
    });
    SUCCEED();
}

TEST_CASE("a deadline of no time, or less, or not a number, passes at once") {
    for (const deadline& limit : {deadline{0s}, deadline{-1h}, deadline{std::chrono::hours::min()},
                                  deadline{fractional_seconds(std::numeric_limits<double>::quiet_NaN())},
                                  deadline{std::chrono::steady_clock::time_point::min()}}) {
        late_call late(1);
        const auto outcomes =
            outcomes_on_ranks(2, [&](auto& comm) { late(comm, [&] { allfold::barrier(comm, limit); }); });
        CHECK(outcomes[0].code == errc::timeout);
        CHECK(outcomes[1].code == errc::timeout);
    }
}

TEST_CASE("an absolute deadline is a point in time") {
    late_call late(1);
    const auto outcomes = outcomes_on_ranks(2, [&](auto& comm) {
        const deadline limit{std::chrono::steady_clock::now() + 20ms};
        std::this_thread::sleep_for(30ms);
        late(comm, [&] { allfold::barrier(comm, limit); });
    });
    CHECK(outcomes[0].code == errc::timeout);
}

TEST_CASE("the deadline of one operation passes while another one is waited for, and tells who waits for whom") {
    for (const auto& tuning : {allfold::thread_tuning(), impatient, noticing})
        for (const bool blocking : {false, true}) {
            // The waiting rank continues soon after the deadline, not just when it next wakes up by itself.
            const bool is_soon = succeeds_now_and_then([&] {
                late_call late(1);
                std::chrono::steady_clock::duration took{};
                const auto outcomes = outcomes_on_ranks(
                    2,
                    [&](auto& comm) {
                        int x = 1;
                        operation hurried, other;
                        if (comm.rank() == 0) hurried = allfold::all_reduce.start(comm, x, sum(), deadline{20ms});
                        const auto begin = std::chrono::steady_clock::now();
                        try {
                            late(comm, [&] {
                                if (blocking) return allfold::barrier(comm);
                                other = allfold::barrier.start(comm);
                                other.wait();
                            });
                        } catch (const allfold::error&) {
                            if (comm.rank() == 1) throw;
                        }
                        took = std::chrono::steady_clock::now() - begin;
                        hurried.wait();
                    },
                    tuning);
                for (const auto& each : outcomes) {
                    INFO(each.text);
                    CHECK(each.code == errc::timeout);
                    CHECK(each.says("rank 0 waits for rank 1 in all_reduce, round 1 of 1"));
                }
                return took < 600ms;
            });
            CHECK(is_soon);
        }
}

TEST_CASE("a wait is awake in time for what has been started during it, wherever that is") {
    using allfold::background;
    class operation_in_flight final : public background::work {
      public:
        void progress() noexcept override {}
        void drop() noexcept override {}
        void be_due_in(std::chrono::hours time) { due_ = background::clock::now() + time; }
    };
    class starting final : public background::work {
      public:
        starting(background& there, operation_in_flight& what) : there_(there), what_(what) {}
        void progress() noexcept override {
            there_.add(what_);
            leave();
        }
        void drop() noexcept override {}

      private:
        background& there_;
        operation_in_flight& what_;
    };
    struct {
        static bool poll() { return false; }
        static bool has_become_done() { return false; }
        static allfold::waiting blocked_on() { return {}; }
        static void check() {}
    } endless;
    for (const bool is_timed : {false, true}) {
        background home, elsewhere;
        operation_in_flight at_first, later;
        at_first.be_due_in(100h);
        if (is_timed) later.be_due_in(1h);
        starting first(is_timed ? home : elsewhere, later);
        home.add(at_first);
        home.add(first);
        allfold::detail::work_with_progress<true, decltype(endless)> wait(home, endless);
        wait.plan_next_look();
        CHECK(wait.next_look() == at_first.due());
        CHECK(wait.poll());
        CHECK_FALSE(wait.is_done());
        wait.plan_next_look();
        CHECK(wait.next_look() < at_first.due());
        if (is_timed) CHECK(wait.next_look() == later.due());
        if (is_timed) CHECK_FALSE(wait.poll());
    }
}

TEST_CASE("a rank that runs ahead of one of many readers waits for that one, and says so") {
    std::string text;
    CHECK(succeeds_with_patience([&](auto patience) {
        late_call late(2);
        text = outcomes_on_ranks(
                   3,
                   [&](auto& comm) {
                       int x = 1;
                       const deadline limit{comm.rank() == 0 ? patience : 100s};
                       late(comm, [&] {
                           for (int i = 0; i < 20; ++i) allfold::broadcast(comm, x, limit);
                       });
                   },
                   noticing)[0]
                   .text;
        return text.find("rank 0 waits for rank 2 in broadcast") != std::string::npos;
    }));
    INFO(text);
    CHECK(text.find("the deadline of rank 0 passed") != std::string::npos);
}

TEST_CASE("the deadline of an operation on one communicator spares the other one") {
    for (const auto& tuning : {allfold::thread_tuning(), impatient, noticing}) {
        std::string text;
        std::atomic<bool> over = false;
        on_two_communicators(
            2,
            [&](auto& a, auto& b) {
                int x = 1, y = 1;
                if (a.rank() == 1) {
                    std::this_thread::sleep_for(100ms);
                    allfold::all_reduce(b, y, sum());
                    while (!over) std::this_thread::yield();
                    return;
                }
                operation hurried = allfold::all_reduce.start(a, x, sum(), deadline{20ms});
                allfold::all_reduce(b, y, sum());
                expect(y == 2, "wrong sum");
                try {
                    hurried.wait();
                } catch (const allfold::error& e) {
                    text = e.what();
                }
                over = true;
            },
            tuning);
        INFO(text);
        CHECK(text.find("the deadline of rank 0 passed") != std::string::npos);
        CHECK(text.find("rank 0 waits for rank 1 in all_reduce") != std::string::npos);
    }
}

TEST_CASE("wait_any looks at the deadlines of all its operations") {
    std::atomic<bool> over = false;
    const auto outcomes = outcomes_on_ranks(2, [&](auto& comm) {
        int x = 1, y = 1;
        if (comm.rank() == 1) {
            while (!over) std::this_thread::yield();
            return allfold::barrier(comm);
        }
        std::vector<operation> operations;
        operations.push_back(allfold::all_reduce.start(comm, x, sum()));
        operations.push_back(allfold::all_reduce.start(comm, y, sum(), deadline{50ms}));
        try {
            static_cast<void>(wait_any(operations));
        } catch (const allfold::error&) {
            over = true;
            throw;
        }
    });
    CHECK(outcomes[0].code == errc::timeout);
    CHECK(outcomes[0].says("the deadline of rank 0 passed"));
}

TEST_CASE("testing an operation whose deadline has passed reports who waits for whom") {
    std::atomic<bool> over = false;
    const auto outcomes = outcomes_on_ranks(2, [&](auto& comm) {
        int x = 1;
        if (comm.rank() == 1) {
            while (!over) std::this_thread::yield();
            return allfold::barrier(comm);
        }
        operation op = allfold::all_reduce.start(comm, x, sum(), deadline{50ms});
        try {
            while (!op.done()) std::this_thread::yield();
        } catch (const allfold::error&) {
            over = true;
            throw;
        }
    });
    INFO(outcomes[0].text);
    CHECK(outcomes[0].code == errc::timeout);
    CHECK(outcomes[0].says("rank 0 waits for rank 1 in all_reduce, round 1 of 1"));
}
