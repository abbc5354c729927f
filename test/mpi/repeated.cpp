// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "allfold/allfold.hpp"
#include "test/mpi/support/job.hpp"
#include "test/mpi/support/outcome.hpp"
#include "test/support/catch.hpp"
#include "test/support/wrapping.hpp"

/// Short calls that are repeated are remembered; with two ranks, all of those made here.

using namespace test;
using namespace std::chrono_literals;
using allfold::errc;
using allfold::sum;
using communicator = allfold::mpi::communicator;

namespace {

/// Sent in one message, and in chunks, whose receives are posted before they arrive.
constexpr std::size_t lengths[] = {1, 12, 5000};
constexpr int times = 4;
/// The rank that does something different from the others in the end.
constexpr int odd = 1;

bool alone() {
    if (ranks_of_job() == 1) SUCCEED("nobody to differ from");
    return ranks_of_job() == 1;
}

/// Calls `same(comm)` several times, then `last(comm)`, and then a barrier, in which a rank that noticed nothing learns
/// of the failure.
template <class Same, class Last>
outcome outcome_after(const char* what, Same same, Last last) {
    const watchdog watch(what);
    return outcome_of([&] {
        communicator comm(MPI_COMM_WORLD);
        for (int turn = 0; turn < times; ++turn) same(comm);
        last(comm);
        allfold::barrier(comm);
    });
}

int value_of(int rank, int turn, std::size_t i) { return 1 + rank + 3 * turn + static_cast<int>(i % 7); }
std::vector<int> values_of(int rank, int turn, std::size_t n) {
    std::vector<int> x(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = value_of(rank, turn, i);
    return x;
}
/// The sums of the values of ranks [first, last).
std::vector<int> sums_of(int first, int last, int turn, std::size_t n, int modulus = 1 << 30) {
    std::vector<int> all(n);
    for (int r = first; r < last; ++r)
        for (std::size_t i = 0; i < n; ++i) all[i] = (all[i] + value_of(r, turn, i)) % modulus;
    return all;
}

/// A different operation for each modulus, but always of the same type.
auto sum_modulo(int modulus) {
    return allfold::commutative([modulus](int a, int b) { return (a + b) % modulus; });
}

}  // namespace

TEST_CASE("a call that is made again gives what its own operands say") {
    const watchdog watch("repeated calls");
    communicator comm(MPI_COMM_WORLD);
    const int rank = comm.rank(), size = comm.size();
    const auto P = static_cast<std::size_t>(size);
    for (const std::size_t n : lengths)
        for (int turn = 0; turn < 3 * times; ++turn) {
            INFO("turn " << turn << ", n = " << n);
            const std::vector<int> in = values_of(rank, turn, n), all = sums_of(0, size, turn, n);
            std::vector<int> out(n, -1), place = in;
            allfold::all_reduce(comm, in, out, sum());
            CHECK(out == all);
            allfold::all_reduce(comm, place, sum());
            CHECK(place == all);
            allfold::all_reduce(comm, in, out, sum_modulo(5 + turn));
            if (size > 1) CHECK(out == sums_of(0, size, turn, n, 5 + turn));
            allfold::inclusive_scan(comm, in, out, sum());
            CHECK(out == sums_of(0, rank + 1, turn, n));
            for (const int root : {0, size - 1}) {
                out.assign(n, -1);
                allfold::reduce(comm, in, out, sum(), allfold::root{root});
                CHECK(out == (rank == root ? all : std::vector<int>(n, -1)));
                place = in;
                allfold::broadcast(comm, place, allfold::root{root});
                CHECK(place == values_of(root, turn, n));
            }
            for (auto* to : {&out, &place}) {  // out of place, and in place
                place = in;
                if (to == &out)
                    allfold::exclusive_scan(comm, in, out, sum());
                else
                    allfold::exclusive_scan(comm, place, sum());
                CHECK(*to == sums_of(0, rank, turn, n));
            }
            std::vector<int> whole = values_of(rank, turn, n * P), gathered(n * P), block(n);
            allfold::reduce_scatter(comm, whole, block, sum());
            const std::vector<int> sums = sums_of(0, size, turn, n * P);
            CHECK(std::equal(block.begin(), block.end(),
                             sums.begin() + static_cast<std::ptrdiff_t>(n * P) / size * rank));
            allfold::all_gather(comm, in, gathered);
            for (int r = 0; r < size; ++r)
                CHECK(std::equal(in.begin(), in.end(), gathered.begin() + static_cast<std::ptrdiff_t>(n) * r,
                                 [&](int mine, int its) { return its - mine == r - rank; }));
            allfold::barrier(comm);
        }
    if (size != 2) return;  // otherwise many schedules have more rounds
    const auto* const calls = static_cast<const allfold::detail::short_calls*>(comm.background().kept.get());
    REQUIRE(calls != nullptr);
    CHECK(calls->found() > 0);
}

TEST_CASE("calls that are made again keep their places among operations in flight, and push them on") {
    const watchdog watch("repeated calls and operations in flight");
    communicator comm(MPI_COMM_WORLD);
    std::vector<int> rounds(300000);  // sent in several rounds
    for (int turn = 0; turn < times; ++turn)
        for (const std::size_t n : lengths) {
            std::vector<int> one(n, 1), three(n, 3);
            std::fill(rounds.begin(), rounds.end(), 2);
            allfold::all_reduce(comm, one, sum());
            auto first = allfold::all_reduce.start(comm, rounds, sum());
            allfold::all_reduce(comm, three, sum());
            if (comm.rank() != odd) first.wait();
            allfold::all_reduce(comm, one, sum());
            first.wait();
            CHECK(one == std::vector<int>(n, comm.size() * comm.size()));
            CHECK(rounds == std::vector<int>(rounds.size(), 2 * comm.size()));
            CHECK(three == std::vector<int>(n, 3 * comm.size()));
        }
}

TEST_CASE("calls that are started again, or prepared, are complete in whatever order they are waited for") {
    const watchdog watch("started again");
    communicator comm(MPI_COMM_WORLD);
    const int rank = comm.rank(), size = comm.size();
    for (const std::size_t n : lengths) {
        constexpr std::size_t count = 40;
        std::vector<std::vector<int>> in(count), out(count);
        std::vector<allfold::persistent> prepared;
        for (std::size_t i = 0; i < count; ++i) {
            in[i].resize(n);
            out[i].resize(n);
            prepared.push_back(allfold::inclusive_scan.prepare(comm, std::span<const int>(in[i]), out[i], sum()));
        }
        for (int turn = 0; turn < times; ++turn) {
            const auto fill = [&] {
                for (std::size_t i = 0; i < count; ++i)
                    std::ranges::copy(values_of(rank, turn + static_cast<int>(i), n), in[i].begin());
            };
            const auto check = [&](int last) {
                for (std::size_t i = 0; i < count; ++i) {
                    const std::vector<int> wanted = sums_of(0, last, turn + static_cast<int>(i), n);
                    const auto wrong = std::ranges::mismatch(out[i], wanted).in1 - out[i].begin();
                    INFO("n = " << n << ", operation " << i << ", turn " << turn << ", element " << wrong);
                    CHECK(wrong == static_cast<std::ptrdiff_t>(n));
                }
            };
            fill();
            for (std::size_t i = 0; i < count; ++i) prepared[rank % 2 == 0 ? i : count - 1 - i].start();
            wait_all(prepared);
            check(rank + 1);
            fill();
            std::vector<allfold::operation> started;
            for (std::size_t i = 0; i < count; ++i)
                started.push_back(allfold::all_reduce.start(comm, std::span<const int>(in[i]), out[i], sum()));
            if (rank % 2 == 0) std::ranges::reverse(started);
            wait_all(started);
            check(size);
        }
    }
}

TEST_CASE("the numbers of lanes between processes wrap, also where they share tags") {
    const watchdog watch("lanes that wrap");
    for (const auto& numbers : {allfold::mpi::tuning(), pinched}) {
        communicator comm(MPI_COMM_WORLD, allfold::mpi::duplicate, numbers);
        check_lanes_that_wrap(comm, numbers == pinched ? "pinched" : "processes");
    }
    SUCCEED();
}

TEST_CASE("a call that goes to the transport's own collective does so though it was started before") {
    const watchdog watch("started, and delegated");
    communicator comm(MPI_COMM_WORLD, allfold::mpi::duplicate,
                      {.native_from = 1, .native_all_reduce_from = 1, .native_reduce_from = 1});
    std::vector<int> x(20);
    const allfold::tensor<int, 1> all(x.data(), {10});
    const allfold::tensor<int, 1> every_other(x.data(), {10}, {2});
    for (int turn = 0; turn < times; ++turn) {
        x.assign(20, 1);
        // Only ranks whose elements are contiguous could remember this call.
        allfold::all_reduce.start(comm, comm.rank() == odd ? every_other : all, sum()).wait();
        CHECK(x[0] == comm.size());
        x.assign(20, 1);
        allfold::all_reduce(comm, all, sum());
        CHECK(x[9] == comm.size());
    }
}

TEST_CASE("columns that are folded again give what their own operands say") {
    const watchdog watch("repeated merges");
    communicator comm(MPI_COMM_WORLD);
    constexpr std::size_t depth = 5;
    for (const std::size_t n : {std::size_t{1}, std::size_t{40}}) {
        std::vector<float> m(n), l(n), s(n * depth);
        const auto merged = [&](communicator& by, int turn) {
            for (std::size_t i = 0; i < n; ++i) {
                m[i] = static_cast<float>(value_of(comm.rank(), turn, i));
                l[i] = static_cast<float>(value_of(comm.rank(), turn + 1, i));
            }
            for (std::size_t i = 0; i < n * depth; ++i) s[i] = static_cast<float>(value_of(comm.rank(), turn, i));
            auto states =
                allfold::records(allfold::tensor<float, 1>(m.data(), {n}), allfold::tensor<float, 1>(l.data(), {n}),
                                 allfold::tensor<float, 2>(s.data(), {n, depth}));
            allfold::all_reduce(by, states, allfold::online_softmax{});
            std::vector<float> all = m;
            all.insert(all.end(), l.begin(), l.end());
            all.insert(all.end(), s.begin(), s.end());
            return all;
        };
        for (int turn = 0; turn < times; ++turn) {
            communicator once(MPI_COMM_WORLD);
            CHECK(merged(comm, turn) == merged(once, turn));
        }
    }
}

TEST_CASE("what a rank sends ahead of the others arrives as it was sent") {
    const watchdog watch("sent ahead");
    communicator comm(MPI_COMM_WORLD);
    constexpr int ahead = 2000;  // more than MPI buffers at once
    for (const std::size_t n : {std::size_t{12}, std::size_t{250}, std::size_t{900}, std::size_t{5000}}) {
        std::vector<int> x(n);
        int wrong = 0;
        for (int turn = 0; turn < ahead; ++turn) {
            x = values_of(comm.rank(), turn, n);
            if (turn == times && comm.rank() != 0) std::this_thread::sleep_for(100ms);
            allfold::broadcast(comm, x);
            wrong += x == values_of(0, turn, n) ? 0 : 1;
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE("a rank that only sends hears of a failure") {
    if (alone()) return;
    const watchdog watch("a failure that nobody waits for");
    const auto mine = outcome_of([&] {
        communicator comm(MPI_COMM_WORLD);
        int x = 1;
        for (int turn = 0; turn < times; ++turn) allfold::broadcast(comm, x);
        if (comm.rank() == odd) throw std::runtime_error("boom");
        for (const auto until = std::chrono::steady_clock::now() + 10s; std::chrono::steady_clock::now() < until;) {
            allfold::broadcast(comm, x);
            std::this_thread::sleep_for(100us);  // slowly enough that MPI can always buffer them
        }
    });
    CHECK((mine.says("boom") || mine.code == errc::peer_failed));
}

TEST_CASE("what is not allfold's is refused in a call that was made before, though the message before it was alike") {
    if (ranks_of_job() != 3) {
        SUCCEED("a barrier of two rounds, in each of which a rank awaits another one");
        return;
    }
    const watchdog watch("foreign messages");
    MPI_Comm mine;
    MPI_Comm_dup(MPI_COMM_WORLD, &mine);
    const outcome failed = outcome_of([&] {
        communicator comm(mine, allfold::mpi::borrow, {.patience = 100ms});
        for (int turn = 0; turn < times; ++turn) allfold::barrier(comm);
        constexpr int tag = 1 + times;
        if (comm.rank() == 0) MPI_Send(nullptr, 0, MPI_BYTE, 2, tag, mine);
        allfold::barrier(comm);
        allfold::barrier(comm);
    });
    check_failure(failed, errc::transport, {"from rank 0", "that is not allfold's"});
    MPI_Barrier(MPI_COMM_WORLD);
}

TEST_CASE("a call that is made again leaves alone what came for a prepared operation with its tag") {
    const watchdog watch("one tag");
    communicator comm(MPI_COMM_WORLD, allfold::mpi::duplicate, {.tags = 1});
    std::vector<int> x(12), prepared(12);
    auto later = allfold::all_reduce.prepare(comm, prepared, sum());
    for (int turn = 0; turn < 5 * times; ++turn) {
        x = values_of(comm.rank(), turn, x.size());
        const std::vector<int> mine = values_of(comm.rank(), turn + 1, x.size());
        prepared.assign(mine.begin(), mine.end());
        if (comm.rank() == odd) later.start();
        allfold::all_reduce(comm, x, sum());
        if (comm.rank() != odd) later.start();
        later.wait();
        CHECK(x == sums_of(0, comm.size(), turn, x.size()));
        CHECK(prepared == sums_of(0, comm.size(), turn + 1, x.size()));
    }
}

TEST_CASE("input and output that overlap in part are refused the second time too") {
    const watchdog watch("overlap");
    communicator comm(MPI_COMM_WORLD);
    std::vector<int> x(40, 1);
    const std::span<int> all(x);
    for (int turn = 0; turn < times; ++turn) allfold::all_reduce(comm, all.first(20), all.last(20), sum());
    allfold::all_reduce(comm, all.first(20), all.first(20), sum());
    CHECK(x[0] == comm.size());
    CHECK(x[39] == comm.size());
    MPI_Barrier(MPI_COMM_WORLD);  // a rank that is still in the previous call would learn of the first refusal
    const auto mine = outcome_of([&] { allfold::all_reduce(comm, all.first(20), all.subspan(10, 20), sum()); });
    CHECK(mine.code == errc::overlap);
}

TEST_CASE("a mismatch is found and explained after calls that were alike") {
    if (alone()) return;
    for (const std::size_t n : lengths) {
        const auto same = [n](auto& comm) {
            std::vector<int> x(n);
            allfold::all_reduce(comm, x, sum());
            allfold::reduce(comm, x, sum(), allfold::root{0});
            allfold::reduce(comm, x, sum(), allfold::root{1});
            allfold::all_reduce(comm, x, allfold::max());
        };
        const auto twice = [&](auto& comm) {
            same(comm);
            std::vector<int> longer(n + 1);
            allfold::all_reduce(comm, longer, sum());
        };
        const auto counts = [n](auto& comm) {
            std::vector<int> x(comm.rank() == odd ? n + 1 : n);
            allfold::all_reduce(comm, x, sum());
        };
        const auto roots = [n](auto& comm) {
            std::vector<int> x(n);
            allfold::reduce(comm, x, sum(), allfold::root{comm.rank() == odd ? odd : 0});
        };
        const auto operators = [n](auto& comm) {
            std::vector<int> x(n);
            if (comm.rank() == odd)
                allfold::all_reduce(comm, x, allfold::max());
            else
                allfold::all_reduce(comm, x, sum());
            if (comm.size() == 2) FAIL("the call that differs has returned");
        };
        const auto collectives = [n](auto& comm) {
            std::vector<int> x(n);
            if (comm.rank() == odd)
                allfold::all_reduce(comm, x, sum());
            else
                allfold::reduce(comm, x, sum(), allfold::root{odd});
        };
        INFO("n = " << n);
        const std::string here = std::to_string(n), there = std::to_string(n + 1);
        check_failure(outcome_after("counts", same, counts), errc::mismatch, {"all_reduce", here, there, "rank 1"});
        check_failure(outcome_after("known counts", twice, counts), errc::mismatch, {"all_reduce", here, there});
        check_failure(outcome_after("roots", same, roots), errc::mismatch, {"names root 0", "names root 1"});
        check_failure(outcome_after("operators", same, operators), errc::mismatch, {"folds with", "max", "sum"});
        check_failure(outcome_after("collectives", same, collectives), errc::mismatch,
                      {"calls all_reduce", "calls reduce"});
    }
}

TEST_CASE("a rank that throws, leaves or comes too late is named after calls that were alike") {
    if (alone()) return;
    for (const std::size_t n : lengths) {
        bool throws = false;
        const auto add = [&](auto& comm) {
            const bool is_odd = comm.rank() == odd;
            const auto op = allfold::commutative([&throws, is_odd](int a, int b) {
                if (throws && is_odd) throw std::runtime_error("boom");
                return a + b;
            });
            std::vector<int> x(n);
            allfold::all_reduce(comm, x, op);
        };
        const auto mine = outcome_after("operator", add, [&](auto& comm) {
            throws = true;
            add(comm);
        });
        CHECK(mine.says("boom"));
        throws = false;
        const auto left = outcome_after("departure", add, [&](auto& comm) {
            if (comm.rank() == odd) throw std::runtime_error("gone");
            add(comm);
        });
        CHECK((left.says("gone") || left.code == errc::peer_failed));
        const auto late = outcome_after("deadline", add, [&](auto& comm) {
            std::vector<int> x(n);
            for (int turn = 0; turn < 2; ++turn) allfold::all_reduce(comm, x, sum(), allfold::deadline{100s});
            const allfold::deadline limit{comm.rank() == odd ? 100s : 50ms};
            const late_call at_last(odd);
            at_last(comm, [&] { allfold::all_reduce(comm, x, sum(), limit); });
        });
        check_failure(late, errc::timeout, {"the deadline of rank", "waits for rank"});
    }
}

TEST_CASE("a call inside an operator is refused where the outer one was made before") {
    if (alone()) return;
    bool calls = false;
    const auto fold = [&](auto& comm) {
        const auto op = allfold::commutative([&](int a, int b) {
            int inner = 1;
            if (calls) allfold::all_reduce(comm, inner, sum());
            return a + b;
        });
        int x = 1;
        allfold::all_reduce(comm, x, sum());
        allfold::all_reduce(comm, x, op);
    };
    const auto mine = outcome_after("inside an operator", fold, [&](auto& comm) {
        calls = true;
        fold(comm);
    });
    check_failure(mine, errc::bad_argument, {"inside the operator"});
}
