// SPDX-License-Identifier: BSL-1.0
#include "allfold/transport/hierarchy.hpp"

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "allfold/allfold.hpp"
#include "test/collective/all_gather_checks.hpp"
#include "test/collective/all_reduce_checks.hpp"
#include "test/collective/all_to_all_checks.hpp"
#include "test/collective/arrangement_checks.hpp"
#include "test/collective/barrier_checks.hpp"
#include "test/collective/broadcast_checks.hpp"
#include "test/collective/exclusive_scan_checks.hpp"
#include "test/collective/gather_checks.hpp"
#include "test/collective/images_checks.hpp"
#include "test/collective/inclusive_scan_checks.hpp"
#include "test/collective/permute_checks.hpp"
#include "test/collective/reduce_checks.hpp"
#include "test/collective/reduce_scatter_checks.hpp"
#include "test/collective/scatter_checks.hpp"
#include "test/collective/sync_checks.hpp"
#include "test/collective/together_checks.hpp"
#include "test/mpi/support/job.hpp"
#include "test/mpi/support/outcome.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"
#include "test/support/teams.hpp"

using namespace test;
using namespace std::chrono_literals;
using allfold::errc;
using allfold::sum;

namespace {

template <class Comm, class Algebra>
void check_everything(Comm& comm, const problem<Algebra>& p, const std::string& where) {
    check_all_reduce(comm, p, where);
    check_all_reduce(comm, p, where + ", by halves", allfold::two_level_halving());
    check_all_reduce(comm, p, where + ", in windows", narrow(p));
    check_inclusive_scan(comm, p, where);
    check_exclusive_scan(comm, p, where);
    for (const int root : roots_of(comm.size(), p.size())) {
        check_reduce(comm, p, root, where);
        check_broadcast(comm, p, root, where);
    }
    for (const auto& blocks : partitions_of(p.size(), comm.size())) {
        for (const int root : roots_of(comm.size(), p.size())) {
            check_gather(comm, p, root, blocks, where, blocks);
            check_scatter(comm, p, root, blocks, where, blocks);
        }
        check_reduce_scatter(comm, p, blocks, where, blocks);
        check_all_gather(comm, p, blocks, where, blocks);
    }
}

}  // namespace

TEMPLATE_TEST_CASE("threads of processes do what threads and what processes do", "", words, floats) {
    for (const int threads : {1, 2, 3})
        on_threads_of_the_job<TestType>(
            threads, [](auto& comm, const auto& p, const auto& where) { check_everything(comm, p, where); });
    SUCCEED();
}

TEMPLATE_TEST_CASE("threads of processes send each other blocks of one length and of several", "", words, floats) {
    for (const int threads : {1, 2, 3}) {
        const watchdog watch("all_to_all and permute in two levels");
        allfold::run(shared_communicator({}), threads, [&](auto& comm) {
            const std::string where = "in groups of " + std::to_string(threads);
            for (const pair_lengths lengths : {none_between, one_between, some_between}) {
                check_all_to_all<TestType>(comm, lengths, where);
                check_all_to_all_in_place<TestType>(comm, lengths, where);
            }
            check_uneven_all_to_all<TestType>(comm, where);
            check_all_to_all_by_sizes<TestType>(comm, where);
            check_permutations<TestType>(comm, where);
            check_permutations<TestType>(comm, where, allfold::two_level());
            check_uneven_permutations<TestType>(comm, where);
            if (threads == 2) check_arrangements<TestType>(comm, where);
        });
    }
    SUCCEED();
}

TEST_CASE("images of threads of processes are folded, rank by rank") {
    const watchdog watch("images in two levels");
    allfold::run(shared_communicator({}), 2, [](auto& comm) { check_images(comm, {7}); });
    SUCCEED();
}

TEST_CASE("what threads of processes have in flight goes on while they form their first team") {
    const watchdog watch("a team formed in two levels");
    allfold::mpi::communicator processes(MPI_COMM_WORLD);
    allfold::run(processes, 2, [](auto& comm) {
        const auto ranks = static_cast<std::size_t>(comm.size());
        std::vector<int> first{1}, second{2}, in(ranks, comm.rank()), out(ranks);
        const auto each = allfold::partition::even(ranks, comm.size());
        auto before = allfold::all_reduce.start(comm, first, allfold::sum());
        auto flat = allfold::all_to_all.start(comm, in, out, allfold::input_blocks{each}, allfold::output_blocks{each});
        auto after = allfold::all_reduce.start(comm, second, allfold::sum());
        allfold::wait_all(before, flat, after);
        expect(first[0] == comm.size() && second[0] == 2 * comm.size(), "all_reduce beside a team");
        for (std::size_t r = 0; r < ranks; ++r) expect(out[r] == static_cast<int>(r), "all_to_all in a new team");
    });
    SUCCEED();
}

TEST_CASE("no thread of any process leaves a barrier before all have come") {
    const watchdog watch("barrier in two levels");
    allfold::mpi::communicator processes(MPI_COMM_WORLD);
    allfold::run(processes, 3, [](auto& comm) {
        for (int late = 0; late < comm.size(); ++late) check_barrier_orders(comm, late, "two levels");
    });
    SUCCEED();
}

TEST_CASE("operations of threads of processes end in any order") {
    const watchdog watch("operations in two levels");
    allfold::mpi::communicator processes(MPI_COMM_WORLD);
    allfold::run(processes, 2, [](auto& comm) {
        std::vector<int> x(1000, 1), y(50000, 2);
        auto first = allfold::all_reduce.start(comm, x, sum());
        auto second = allfold::all_reduce.start(comm, y, sum());
        if (comm.rank() % 2 == 0) second.wait();
        first.wait();
        second.wait();
        expect(x[999] == comm.size() && y[49999] == 2 * comm.size(), "wrong sum");
        for (unsigned seed = 0; seed < 30; seed += 10) check_together(comm, seed);
        check_sync_modes(comm);
    });
    SUCCEED();
}

TEST_CASE("a thread that throws releases all threads of all processes") {
    const watchdog watch("failure in two levels");
    const int culprit = ranks_of_job() == 1 ? 1 : 3;  // the second thread of the last or second process
    const auto mine = outcome_of([&] {
        allfold::mpi::communicator processes(MPI_COMM_WORLD);
        allfold::run(processes, 2, [&](auto& comm) {
            std::vector<int> x(1000);
            for (int turn = 0;; ++turn) {
                if (turn == 3 && comm.rank() == culprit) throw std::runtime_error("boom");
                allfold::all_reduce(comm, x, sum());
            }
        });
    });
    INFO(mine.text);
    CHECK(mine.says("boom"));
    CHECK(on_any_rank(mine.text == "boom"));
}

TEST_CASE("a deadline releases all threads of all processes") {
    const watchdog watch("deadline in two levels");
    const auto mine = outcome_of([&] {
        allfold::mpi::communicator processes(MPI_COMM_WORLD, allfold::mpi::duplicate, {.patience = 100ms});
        allfold::run(processes, 2, [&](auto& comm) {
            const int last = comm.size() - 1;
            const allfold::deadline limit{comm.rank() == last ? 100s : 20ms};
            std::vector<int> x(1000);
            const late_call late(last);
            late(comm, [&] { allfold::all_reduce(comm, x, sum(), limit); });
            allfold::barrier(comm);
        });
    });
    INFO(mine.text);
    CHECK(mine.code == errc::timeout);
}

TEST_CASE("run tells who calls it that another process has left without calling it") {
    const watchdog watch("a process that does not call run");
    const auto mine = outcome_of([] {
        allfold::mpi::communicator processes(MPI_COMM_WORLD, allfold::mpi::duplicate,
                                             {.notice = 10ms, .patience = 100ms});
        const bool leaves = processes.rank() > 0 && processes.rank() == processes.size() - 1;
        if (!leaves) allfold::run(processes, 2, [](auto&) {});
    });
    INFO(mine.text);
    CHECK((mine.text.empty() || mine.code == errc::peer_failed));
    CHECK(on_any_rank(mine.says("which has returned without taking part")) == (ranks_of_job() > 1));
}

TEST_CASE("a plan for threads of processes has two levels") {
    allfold::mpi::communicator processes(MPI_COMM_WORLD);
    allfold::run(processes, 2, [](auto& comm) {
        const auto small = allfold::all_reduce.plan(comm, 100, sum());
        expect(small.name() == "two-level" && small.size() == comm.size(), small.name());
        const auto long_one = allfold::all_reduce.plan(comm, 1000000, sum());
        expect(long_one.why().find("least volume") != std::string::npos, long_one.why());
    });
    SUCCEED();
}

TEST_CASE("teams of threads of processes fold among their members, nested too") {
    for (const int threads : {1, 2, 3}) {
        const watchdog watch("teams in two levels");
        allfold::run(shared_communicator({}), threads, [&](auto& comm) {
            check_teams(comm);
            for (unsigned seed = 1; seed <= 3; ++seed) check_nested_splits(comm, seed);
        });
    }
    SUCCEED();
}

TEST_CASE("long messages of a team whose members are no first threads") {
    const watchdog watch("a team of second threads");
    allfold::run(shared_communicator(pinched), 2, [](auto& comm) {
        const auto second = allfold::subset(comm, allfold::rank_list::strided(1, comm.size() / 2, 2));
        if (!second) return;
        std::vector<int> x(300000, comm.rank());
        allfold::all_reduce(*second, x, sum());
        const int expected = comm.size() * comm.size() / 4;
        expect(x.front() == expected && x.back() == expected, "wrong sum");
    });
    SUCCEED();
}
