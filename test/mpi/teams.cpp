// SPDX-License-Identifier: BSL-1.0
#include "test/support/teams.hpp"

#include <stdexcept>

#include "allfold/collective.hpp"
#include "allfold/error.hpp"
#include "allfold/transport/mpi.hpp"
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
