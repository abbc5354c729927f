// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/operator.hpp"
#include "allfold/collective.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/engine/options.hpp"
#include "allfold/message.hpp"
#include "allfold/schedule/binomial.hpp"
#include "allfold/schedule/dissemination.hpp"
#include "allfold/schedule/recursive_doubling.hpp"
#include "allfold/schedule/recursive_halving.hpp"
#include "allfold/schedule/ring.hpp"
#include "test/support/algorithms.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/patience.hpp"
#include "test/support/ranks.hpp"
#include "test/support/sanitized.hpp"

using namespace test;
using namespace std::chrono_literals;
using allfold::errc;
using allfold::sum;

namespace {

struct boom : std::runtime_error {
    boom() : std::runtime_error("boom") {}
};

constexpr int group_sizes_here[] = {2, 3, 5, 8};
constexpr std::size_t lengths[] = {1, 1000, 50000};

/// The rank that fails. It is not the first one, so others wait for it.
constexpr int culprit = 1;

void check_all_name_the_culprit(const std::vector<outcome>& outcomes, int failing = culprit) {
    const std::string reason = "rank " + std::to_string(failing) + " failed: boom";
    for (std::size_t r = 0; r < outcomes.size(); ++r) {
        INFO("rank " << r << " of " << outcomes.size() << ": " << outcomes[r].text);
        if (r == static_cast<std::size_t>(failing))
            CHECK(outcomes[r].text == "boom");
        else
            CHECK((outcomes[r].code == errc::peer_failed && outcomes[r].says(reason)));
    }
}

/// A sum that throws on one rank.
auto fragile_sum(int rank, int failing = culprit) {
    return allfold::commutative([rank, failing](int a, int b) {
        if (rank == failing) throw boom();
        return a + b;
    });
}

}  // namespace

TEST_CASE("a rank that throws before a collective releases the others, with its name and reason") {
    for (const int size : group_sizes_here)
        for (const std::size_t n : lengths) {
            const auto outcomes = outcomes_on_ranks(size, [&](auto& comm) {
                std::vector<int> x(n);
                if (comm.rank() == culprit) throw boom();
                for (;;) allfold::all_reduce(comm, x, sum());
            });
            check_all_name_the_culprit(outcomes);
            CHECK(outcomes[0].says("all_reduce: aborted on rank 0 of " + std::to_string(size)));
        }
}

TEST_CASE("a rank that throws between collectives releases the others, with its name and reason") {
    for (const int size : group_sizes_here)
        for (const std::size_t n : lengths)
            check_all_name_the_culprit(outcomes_on_ranks(size, [&](auto& comm) {
                std::vector<int> x(n);
                for (int i = 0;; ++i) {
                    if (comm.rank() == culprit && i == 3) throw boom();
                    allfold::all_reduce(comm, x, sum());
                    allfold::barrier(comm);
                }
            }));
}

TEST_CASE("an operator that throws releases the other ranks, with its rank and reason") {
    for (const int size : group_sizes_here)
        for (const std::size_t n : {std::size_t{1000}, std::size_t{50000}})
            for_each_algorithm(allfold::all_reduce, size, [&](std::string name, auto... algorithm) {
                INFO(name);
                // If only one rank folds, that is the one to fail.
                const int failing = name == allfold::flat_tree::name || name == "automatic" ? 0 : culprit;
                const auto outcomes = outcomes_on_ranks(size, [&](auto& comm) {
                    std::vector<int> x(n, 1);
                    allfold::all_reduce(comm, x, fragile_sum(comm.rank(), failing), algorithm...);
                    allfold::barrier(comm);
                });
                check_all_name_the_culprit(outcomes, failing);
            });
}

TEST_CASE("an operator that throws in any other collective releases the other ranks") {
    for (const int size : group_sizes_here) {
        check_all_name_the_culprit(outcomes_on_ranks(size, [&](auto& comm) {
            std::vector<int> x(1000, 1);
            allfold::reduce(comm, x, fragile_sum(comm.rank()), allfold::root{culprit});
            allfold::barrier(comm);
        }));
        check_all_name_the_culprit(outcomes_on_ranks(size, [&](auto& comm) {
            std::vector<int> x(1000, 1);
            allfold::reduce_scatter(comm, x, fragile_sum(comm.rank()));
            allfold::barrier(comm);
        }));
        check_all_name_the_culprit(outcomes_on_ranks(size, [&](auto& comm) {
            std::vector<int> x(1000, 1);
            allfold::inclusive_scan(comm, x, fragile_sum(comm.rank()));
            allfold::barrier(comm);
        }));
    }
}

TEST_CASE("a call during which another rank's operator throws does not count as complete") {
    // Long enough for a single pass, in which each rank writes a block of all results.
    for (int turn = 0; turn < fewer_if_sanitized(60, 12); ++turn) {
        const int kind = turn / 3 % 3, size = (kind == 2 ? 3 : 2) + turn % 3;
        std::atomic<int> wrong = 0;
        const auto outcomes = outcomes_on_ranks(size, [&](auto& comm) {
            int folds = 0;
            const auto fragile = allfold::associative([&folds, fails = comm.rank() == culprit, turn](int a, int b) {
                if (fails && folds++ == 40 * turn) throw boom();
                return a + b;
            });
            std::vector<int> x(40000, 1);
            allfold::operation all;
            if (kind == 0) all = allfold::all_reduce.start(comm, x, fragile);
            if (kind == 1) all = allfold::inclusive_scan.start(comm, x, fragile);
            if (kind == 2) all = allfold::exclusive_scan.start(comm, x, fragile);  // leaves rank 0 alone
            all.wait();
            const int expected = kind == 0 ? size : kind == 1 ? comm.rank() + 1 : std::max(1, comm.rank());
            if (std::ranges::count(x, expected) != std::ssize(x)) ++wrong;
        });
        INFO("turn " << turn);
        CHECK(wrong == 0);
        CHECK(outcomes[culprit].text == "boom");
    }
}

TEST_CASE("after a failure every collective on the communicator throws, on every rank") {
    on_ranks(3, [](auto& comm) {
        int x = 1;
        bool first = true;
        for (int i = 0; i < 3; ++i) {
            try {
                allfold::all_reduce(comm, x, fragile_sum(comm.rank()));
                allfold::barrier(comm);
                expect(false, "no failure");
            } catch (const boom&) {
                expect(first && comm.rank() == culprit, "boom in the wrong place");
            } catch (const allfold::error& e) {
                expect(e.code() == errc::peer_failed, e.what());
            }
            first = false;
        }
    });
    SUCCEED();
}

TEST_CASE("run throws the exception of the rank that failed, with its type") {
    CHECK_THROWS_AS(on_ranks(3,
                             [](auto& comm) {
                                 if (comm.rank() == culprit) throw boom();
                                 allfold::barrier(comm);
                             }),
                    boom);
    CHECK_THROWS_AS(on_ranks(3,
                             [](auto& comm) {
                                 if (comm.rank() == 2) throw 42;
                                 allfold::barrier(comm);
                             }),
                    int);
    CHECK_THROWS_AS(on_ranks(3,
                             [](auto& comm) {
                                 int x = 1;
                                 allfold::all_reduce(comm, x, fragile_sum(comm.rank()));
                                 allfold::barrier(comm);
                             }),
                    boom);
}

TEST_CASE("run throws the error of the rank that waits in vain, not the reports of others") {
    for (int turn = 0; turn < 20; ++turn) {
        const outcome told = outcome_of([] {
            allfold::run(3, [](auto& comm) {
                if (comm.rank() != 1) allfold::barrier(comm);
            });
        });
        INFO(told.text);
        CHECK(told.text.find("barrier: rank ") == 0);
        CHECK((told.says("waits for rank 1") && !told.says("aborted")));
    }
}

TEST_CASE("run throws a failure that only destructors of operations have found") {
    enum class way { destroyed, assigned_over, prepared, seen_in_a_wait, seen_in_a_call };
    const auto fragile = allfold::associative([](int, int) -> int { throw boom(); });
    for (const way it : {way::destroyed, way::assigned_over, way::prepared, way::seen_in_a_wait, way::seen_in_a_call}) {
        const auto body = [&](auto& comm) {
            std::vector<int> x(100, 1), y(100, 1);
            allfold::persistent again;
            if (it == way::prepared) {
                again = allfold::all_reduce.prepare(comm, x, fragile);
                return again.start();
            }
            allfold::operation op = allfold::all_reduce.start(comm, x, fragile);
            if (it == way::assigned_over) op = {};
            if (it == way::seen_in_a_wait)
                static_cast<void>(outcome_of([&] { allfold::all_reduce.start(comm, y, fragile).wait(); }));
            if (it == way::seen_in_a_call)
                static_cast<void>(outcome_of([&] { allfold::all_reduce(comm, y, fragile); }));
        };
        const bool is_seen = it == way::seen_in_a_wait || it == way::seen_in_a_call;
        const auto end = outcome_of([&] { on_ranks(3, body); });
        INFO(static_cast<int>(it));
        CHECK(end.text == (is_seen ? "" : "boom"));
    }
}

TEST_CASE("a rank that returns early is named by those that wait for it") {
    for (const int size : group_sizes_here)
        for (const std::size_t n : lengths) {
            const auto outcomes = outcomes_on_ranks(size, [&](auto& comm) {
                std::vector<int> x(n);
                allfold::all_reduce(comm, x, sum());
                if (comm.rank() == culprit) return;
                for (;;) allfold::all_reduce(comm, x, sum());
            });
            for (std::size_t r = 0; r < outcomes.size(); ++r) {
                INFO("rank " << r << " of " << size << ": " << outcomes[r].text);
                if (r == culprit)
                    CHECK(outcomes[r].succeeded());
                else
                    CHECK((outcomes[r].code == errc::peer_failed && outcomes[r].says("rank 1") &&
                           outcomes[r].says("returned")));
            }
        }
}

TEST_CASE("a rank that returns although it has been lent something releases the lender") {
    const auto outcomes = outcomes_on_ranks(2, [](auto& comm) {
        std::vector<float> x(300000, 1.0F);
        if (comm.rank() == 0) allfold::broadcast(comm, x);
    });
    INFO(outcomes[0].text);
    CHECK(outcomes[0].code == errc::peer_failed);
    CHECK(outcomes[0].says("rank 1"));
    CHECK(outcomes[1].succeeded());
}

TEST_CASE("a rank may return as soon as its own part is done") {
    for (int turn = 0; turn < 50; ++turn)
        for (const int size : group_sizes_here)
            on_ranks(
                size,
                [&](auto& comm) {
                    std::vector<int> x(100 + static_cast<std::size_t>(turn), 1);
                    allfold::broadcast(comm, x, allfold::root{turn % size}, allfold::binomial());
                    allfold::reduce(comm, x, sum(), allfold::root{turn % size}, allfold::binomial());
                },
                std::array{allfold::thread_tuning(), impatient, noticing}[static_cast<std::size_t>(turn) % 3]);
    SUCCEED();
}

TEST_CASE("when a deadline passes all ranks throw, with a table of who waits for whom") {
    // Rank 2 stays away. How soon the others reach the barrier depends on the machine: one attempt in which all do is
    // enough.
    const bool is_whole = succeeds_with_patience([](auto patience) {
        late_call late(2);
        const auto outcomes = outcomes_on_ranks(
            4, [&](auto& comm) { late(comm, [&] { allfold::barrier(comm, allfold::deadline(patience)); }); });
        for (const auto& each : outcomes) {
            INFO(each.text);
            CHECK(each.code == errc::timeout);
            CHECK(each.says("barrier"));
            CHECK(each.says("the deadline of rank"));
            CHECK(each.says("rank 2 is not waiting in a collective"));
        }
        return outcomes[2].says("rank 3 waits for rank 2 in barrier, round 1 of 1");
    });
    CHECK(is_whole);
}

TEST_CASE("the table of a deadline says that a rank waits, also if it waits only for others to read what it lends") {
    late_call late(1);
    const auto outcomes = outcomes_on_ranks(2, [&](auto& comm) {
        std::vector<std::string> x(100, "lent");
        late(comm, [&] { allfold::broadcast(comm, x, allfold::deadline{comm.rank() == 0 ? 20ms : 100s}); });
    });
    INFO(outcomes[0].text);
    CHECK(outcomes[0].code == errc::timeout);
    CHECK(outcomes[0].says("rank 0 waits in broadcast"));
}

TEST_CASE("the deadline of an operation counts where it is waited for") {
    std::atomic<bool> thrown = false;
    const auto outcomes = outcomes_on_ranks(2, [&](auto& comm) {
        int x = 1;
        if (comm.rank() == 1) {
            while (!thrown) std::this_thread::yield();
            allfold::barrier(comm);
        }
        auto op = allfold::all_reduce.start(comm, x, sum(), allfold::deadline(20ms));
        try {
            op.wait();
        } catch (const allfold::error&) {
            thrown = true;
            throw;
        }
    });
    for (const auto& each : outcomes) {
        INFO(each.text);
        CHECK(each.code == errc::timeout);
        CHECK(each.says("rank 0 waits for rank 1 in all_reduce, round 1 of 1"));
    }
}

TEST_CASE("a deadline that does not pass changes nothing") {
    on_ranks(3, [](auto& comm) {
        int x = 1;
        allfold::all_reduce(comm, x, sum(), allfold::deadline(100s));
        allfold::barrier(comm, allfold::deadline(std::chrono::steady_clock::now() + 100s));
        expect(x == 3, "wrong sum");
    });
    SUCCEED();
}

// For the address and thread sanitizers: the operands are destroyed while the ranks unwind.
TEST_CASE("nobody touches the memory of a rank that has left by an exception") {
    for (int turn = 0; turn < 150; ++turn) {
        const int size = 2 + turn % 4, fails = turn % size, kind = turn / 3 % 6;
        const std::size_t n = turn % 2 == 0 ? 50000 : 500;
        std::atomic<int> folds = 0;
        const auto sum_until = allfold::commutative([&, limit = turn * 97](int a, int b) {
            if (folds.fetch_add(1, std::memory_order_relaxed) == limit) throw boom();
            return a + b;
        });
        const auto outcomes = outcomes_on_ranks(
            size,
            [&](auto& comm) {
                for (int i = 0;; ++i) {
                    const auto in = std::make_unique<std::vector<int>>(n, 1),
                               out = std::make_unique<std::vector<int>>(n);
                    if (comm.rank() == fails && i == turn % 7) throw boom();
                    if (kind == 0) allfold::all_reduce(comm, *in, *out, sum_until);
                    if (kind == 1) allfold::all_reduce(comm, *in, *out, sum_until, allfold::ring());
                    if (kind == 2) allfold::all_reduce(comm, *in, sum_until, allfold::recursive_halving());
                    if (kind == 3) {
                        const auto a = allfold::all_reduce.start(comm, *in, *out, sum_until);
                        allfold::broadcast(comm, *std::make_unique<std::vector<int>>(n));
                    }
                    if (kind == 4) allfold::inclusive_scan(comm, *in, *out, sum_until, allfold::dissemination());
                    if (kind == 5) allfold::reduce_scatter(comm, *in, sum_until);
                }
            },
            std::array{allfold::thread_tuning(), impatient, noticing}[static_cast<std::size_t>(turn) % 3]);
        for (const auto& each : outcomes) CHECK_FALSE(each.succeeded());
    }
}

TEST_CASE("ranks that abort operations on two communicators at once do not wait for each other") {
    // Each has operations in flight on both, in which it is lent memory, and aborts first where the other one does
    // last.
    const auto joined = allfold::associative([](const std::string& a, const std::string& b) { return a + b; });
    for (int turn = 0; turn < 5; ++turn) {
        allfold::thread_world second(3);
        std::atomic<int> ready = 0;
        const auto wait_for_two = [&ready] {
            while (ready < 2) std::this_thread::yield();
        };
        const auto outcomes = outcomes_on_ranks(3, [&](auto& comm) {
            auto other = second.communicator(comm.rank());
            if (comm.rank() == 2) return wait_for_two();
            auto& early = comm.rank() == 0 ? comm : other;
            auto& late = comm.rank() == 0 ? other : comm;
            std::vector<std::string> x(2000, "x"), y(2000, "y");
            auto last = allfold::all_reduce.start(early, x, joined), first = allfold::all_reduce.start(late, y, joined);
            for (int i = 0; i < 200 && !first.done() && !last.done(); ++i) std::this_thread::yield();
            ++ready;
            wait_for_two();
            throw boom();
        });
        CHECK((outcomes[0].text == "boom" && outcomes[1].text == "boom"));
    }
}

TEST_CASE("ranks whose operations time out inside a call that the other one aborts do not wait for each other") {
    const auto joined = allfold::associative([](const std::string& a, const std::string& b) { return a + b; });
    for (int turn = 0; turn < 20; ++turn) {
        allfold::thread_world second(3);
        std::atomic<int> left = 0;
        const allfold::deadline at_once_on_both(std::chrono::steady_clock::now() + 5ms);
        const auto outcomes = outcomes_on_ranks(3, [&](auto& comm) {
            auto other = second.communicator(comm.rank());
            while (comm.rank() == 2 && left < 2) std::this_thread::yield();
            if (comm.rank() == 2) return;
            auto& early = comm.rank() == 0 ? comm : other;
            auto& late = comm.rank() == 0 ? other : comm;
            std::vector<std::string> x(2000, "x"), y(2000, "y");
            try {
                const auto timed = allfold::all_reduce.start(early, x, joined, at_once_on_both);
                allfold::all_reduce(late, y, joined);
            } catch (const allfold::error&) {
                ++left;
                throw;
            }
        });
        CHECK_FALSE((outcomes[0].succeeded() || outcomes[1].succeeded()));
    }
}

TEST_CASE("a rank gets its own exception wherever it first learns of it") {
    for (const bool is_other : {false, true}) {
        allfold::thread_world second(2);
        std::atomic<bool> is_through = false, has_met = false;
        const auto wait_until = [](const std::atomic<bool>& event) {
            while (!event) std::this_thread::yield();
        };
        const auto outcomes = outcomes_on_ranks(2, [&](auto& comm) {
            auto other = second.communicator(comm.rank());
            auto& broken = is_other ? other : comm;
            auto& sound = is_other ? comm : other;
            std::vector<int> x(4, 1);
            auto in_flight = allfold::inclusive_scan.start(broken, x, fragile_sum(comm.rank()));
            if (comm.rank() == culprit) {
                bool has_failed = false;
                in_flight.then([&has_failed](const std::exception_ptr& e) { has_failed = e != nullptr; });
                auto elsewhere = allfold::barrier.start(sound);
                while (!has_failed) static_cast<void>(elsewhere.done());  // which makes progress on it
                is_through = true;
                elsewhere.wait();
                has_met = true;
            } else {
                wait_until(is_through);
                allfold::barrier(sound);
                wait_until(has_met);  // its exit breaks the sound communicator as well
            }
            allfold::barrier(broken);
        });
        check_all_name_the_culprit(outcomes);
    }
}

TEST_CASE("ranks that abort operations in flight inside another call do not wait for each other") {
    // The call uses buffers that other ranks have lent; those ranks wait until it releases them.
    for (int turn = 0; turn < 40; ++turn) {
        const int size = 3 + turn % 2 * 2;
        const bool is_late = turn % 4 < 2;
        std::atomic<int> folds = 0;
        const auto sum_until = allfold::commutative([&](float a, float b) {
            if (!is_late && folds.fetch_add(1, std::memory_order_relaxed) == 1000 * turn) throw boom();
            return a + b;
        });
        const auto outcomes = outcomes_on_ranks(size, [&](auto& comm) {
            std::vector<float> a(100000, 1), b(a);
            auto in_flight = is_late ? allfold::all_reduce.start(comm, a, sum_until, allfold::deadline(300us))
                                     : allfold::all_reduce.start(comm, a, sum_until);
            allfold::all_reduce(comm, b, sum());
            in_flight.wait();
        });
        int failed = 0;
        for (const auto& each : outcomes) {
            failed += each.succeeded() ? 0 : 1;
            if (is_late) CHECK((each.succeeded() || each.code == errc::timeout));  // a rank may be through before it
        }
        if (!is_late) CHECK((failed == 0 || failed == size));
    }
}

TEST_CASE("nobody touches the objects of a rank that has left by an exception") {
    for (int turn = 0; turn < 60; ++turn) {
        const int size = 2 + turn % 4, fails = turn % size;
        const auto outcomes = outcomes_on_ranks(size, [&](auto& comm) {
            for (int i = 0;; ++i) {
                std::vector<std::string> x(300, "more than fits into a string without memory of its own");
                if (comm.rank() == fails && i == turn % 7) throw boom();
                if (turn % 2)
                    allfold::all_reduce(comm, x, allfold::max());
                else
                    allfold::all_reduce(comm, x, allfold::max(), allfold::recursive_doubling());
            }
        });
        for (const auto& each : outcomes) CHECK_FALSE(each.succeeded());
    }
}

namespace {

thread_local bool copies_throw = false;
/// Throws when it is copied, on some ranks.
struct fragile {
    fragile() = default;
    fragile(const fragile&) {
        if (copies_throw) throw boom();
    }
    fragile& operator=(const fragile&) = default;
};
struct fragile_mean : fragile {
    static constexpr allfold::law_set laws = allfold::law::associative | allfold::law::commutative;
    [[nodiscard]] double operator()(double a, double b) const { return a + b; }
    [[nodiscard]] double lower(const double& all, int n) const { return all / n; }
};

}  // namespace

TEST_CASE("a rank on which an operand or an operator cannot be copied releases the others, although it stays") {
    const auto check = [](auto call) {
        std::atomic<bool> has_ended = false;
        on_ranks(2, [&](auto& comm) {
            copies_throw = comm.rank() == culprit;
            const outcome own = outcome_of([&] { call(comm); });
            copies_throw = false;
            if (comm.rank() == culprit) {
                expect(own.text == "boom", own.text);
                while (!has_ended) std::this_thread::yield();
            } else {
                expect(own.code == errc::peer_failed && own.says("boom"), own.text);
                has_ended = true;
            }
        });
    };
    check([](auto& comm) {
        const fragile x;
        static_cast<void>(allfold::all_reduce(
            comm, x, allfold::commutative([](const fragile&, const fragile&) { return fragile(); })));
    });
    check([](auto& comm) {
        const fragile x;
        static_cast<void>(allfold::broadcast(comm, x));
    });
    const fragile_mean mean;
    check([&](auto& comm) {
        std::vector<double> x(2);
        double all = 0;
        allfold::all_reduce.start(comm, allfold::distributed(x, allfold::block_cyclic{2, 0, 4}), all, mean).wait();
    });
    check([&](auto& comm) {
        double x = 1, all = 0;
        allfold::all_reduce.start(comm, allfold::images(x, x), all, mean).wait();
    });
    check([&](auto& comm) {
        double x = 1, all = 0;
        allfold::all_reduce(comm, allfold::images(x, x), all, mean);
    });
    SUCCEED();
}

TEST_CASE("a rank that only tests an operation and never waits learns of a failure") {
    for (const int size : group_sizes_here)
        for (const std::size_t n : lengths) {
            const auto outcomes = outcomes_on_ranks(size, [&](auto& comm) {
                if (comm.rank() == culprit) throw boom();
                std::vector<int> x(n);
                auto operation = allfold::all_reduce.start(comm, x, sum());
                while (!operation.done()) std::this_thread::yield();
            });
            check_all_name_the_culprit(outcomes);
        }
}

TEST_CASE("a rank that only tests an operation and never waits learns that another one has returned") {
    for (const int size : group_sizes_here)
        for (const std::size_t n : lengths) {
            const auto outcomes = outcomes_on_ranks(size, [&](auto& comm) {
                if (comm.rank() == culprit) return;
                std::vector<int> x(n);
                auto operation = allfold::all_reduce.start(comm, x, sum());
                while (!operation.done()) std::this_thread::yield();
            });
            for (std::size_t r = 0; r < outcomes.size(); ++r) {
                INFO("rank " << r << " of " << size << ": " << outcomes[r].text);
                CHECK(outcomes[r].succeeded() == (r == culprit));
                CHECK((r == culprit || outcomes[r].says("rank 1")));
            }
        }
}

TEST_CASE("a rank that waits for something else learns that what it has in flight waits for one that has returned") {
    const auto outcomes = outcomes_on_ranks(4, [](auto& comm) {
        if (comm.rank() == 0) return;
        int x = 0, y = 0;
        auto in_flight = allfold::broadcast.start(comm, x, allfold::binomial());  // ranks 1 and 2 hear from rank 0
        if (comm.rank() < 3) allfold::receive(comm, y, allfold::from{3});
        in_flight.wait();  // rank 3 from one of these
        for (int r = 1; r < 3; ++r) allfold::send(comm, y, allfold::to{r});
    });
    for (std::size_t r = 1; r < outcomes.size(); ++r) {
        INFO("rank " << r << ": " << outcomes[r].text);
        CHECK((outcomes[r].code == errc::peer_failed && outcomes[r].says("waits for rank 0")));
    }
}

TEST_CASE("a rank that only tests an operation and never waits learns that its deadline has passed") {
    late_call late(culprit);
    const auto outcomes = outcomes_on_ranks(2, [&](auto& comm) {
        std::vector<int> x(10);
        late(comm, [&] {
            auto operation =
                allfold::all_reduce.start(comm, x, sum(), allfold::deadline{comm.rank() == 0 ? 20ms : 100s});
            while (!operation.done()) std::this_thread::yield();
        });
        allfold::barrier(comm);
    });
    CHECK(outcomes[0].code == errc::timeout);
    CHECK(outcomes[0].says("the deadline of rank 0 passed"));
    CHECK(outcomes[1].code == errc::timeout);
}
