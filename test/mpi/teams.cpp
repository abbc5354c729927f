// SPDX-License-Identifier: BSL-1.0
#include "test/support/teams.hpp"

#include <chrono>
#include <stdexcept>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/error.hpp"
#include "allfold/transport/mpi.hpp"
#include "allfold/transport/rank_list.hpp"
#include "allfold/transport/team.hpp"
#include "test/mpi/support/outcome.hpp"
#include "test/support/catch.hpp"
#include "test/support/watchdog.hpp"

using communicator = allfold::mpi::communicator;

TEST_CASE("teams of processes fold among their members") {
    const test::watchdog watch("teams over MPI");
    communicator comm(MPI_COMM_WORLD);
    test::check_teams(comm);
    SUCCEED();
}

TEST_CASE("nested splits of processes, with operations in flight on all levels") {
    const test::watchdog watch("nested splits over MPI");
    communicator comm(MPI_COMM_WORLD);
    for (unsigned seed = 1; seed <= 5; ++seed) test::check_nested_splits(comm, seed);
    SUCCEED();
}

TEST_CASE("who polls an operation on the parent takes nothing of a team in making") {
    const test::watchdog watch("a team over MPI whose parent is polled");
    communicator comm(MPI_COMM_WORLD);
    int x = 1;
    auto op = allfold::all_reduce.prepare(comm, x, allfold::sum());
    // Where no rank fails it may be called without the barrier before it.
    const auto together = [&] { return comm.form_team(allfold::rank_list::strided(0, comm.size())); };
    allfold::team<communicator> all;
    if (comm.rank() == 0) {
        op.start();
        for (const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
             comm.size() > 1 && std::chrono::steady_clock::now() < end;)
            static_cast<void>(op.done());
        all = together();
    } else {
        all = together();
        op.start();
    }
    op.wait();
    CHECK(x == comm.size());
    CHECK(all->size() == comm.size());
}

TEST_CASE("a process that fails before it has joined a team releases the others") {
    const test::watchdog watch("a team over MPI that lacks a member");
    const auto mine = test::outcome_of([] {
        communicator comm(MPI_COMM_WORLD);
        if (comm.rank() == comm.size() - 1) throw std::runtime_error("boom");
        const auto all = allfold::subset(comm, allfold::rank_list::strided(0, comm.size()));
        allfold::barrier(*all);
    });
    CHECK((mine.text == "boom" || mine.code == allfold::errc::peer_failed));
}
