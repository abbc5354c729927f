// SPDX-License-Identifier: BSL-1.0
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "allfold/transport/mpi.hpp"
#include "test/message/support/predicted.hpp"
#include "test/mpi/support/job.hpp"
#include "test/support/catch.hpp"

/// @file
/// What MPI does is among what explore predicts, for random programs of messages and collectives.

using namespace test;

namespace {

/// What all ranks have seen in one run, on each of them.
std::vector<std::uint32_t> run_over_mpi(const random_program& program, unsigned turn) {
    allfold::mpi::communicator comm(MPI_COMM_WORLD);
    const auto rank = static_cast<unsigned>(comm.rank());
    std::uint32_t seen = 0;
    program.run(comm, seen, dawdler(100 * turn + rank));
    std::vector<std::uint32_t> all(static_cast<std::size_t>(comm.size()));
    MPI_Allgather(&seen, 1, MPI_UINT32_T, all.data(), 1, MPI_UINT32_T, MPI_COMM_WORLD);
    return all;
}

}  // namespace

TEST_CASE("what ranks do over MPI is among what explore predicts, and not always the same") {
    const int size = ranks_of_job();
    if (size == 1 || size > 3) {
        SUCCEED("one rank has nobody to send to, and more have too many orders");
        return;
    }
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    std::uint32_t seed = std::random_device()();  // that of rank 0 everywhere, which alone explores
    MPI_Bcast(&seed, 1, MPI_UINT32_T, 0, MPI_COMM_WORLD);
    std::mt19937 dice(seed);
    int compared = 0, varied = 0;
    for (int i = 0; i < 200 && compared < 8; ++i) {
        const random_program program =
            i == 0 ? random_program(size) : random_program(dice, size, 3 + dice() % 3, random_program::asks::anything);
        const outcomes predicted = rank == 0 ? test::predicted(program) : outcomes();
        int is_suitable = i == 0 || (predicted.all_end() && predicted.seen.size() > 1) ? 1 : 0;
        MPI_Bcast(&is_suitable, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (is_suitable == 0) continue;
        ++compared;
        const watchdog watch("program " + std::to_string(i) + " of seed " + std::to_string(seed));
        INFO("seed " << seed << ", program " << i << ": " << program.text() << explain(predicted.found));
        std::set<std::vector<std::uint32_t>> seen;
        for (unsigned turn = 0; turn < 100; ++turn) {
            const auto all = run_over_mpi(program, turn);
            if (rank == 0) CHECK(predicted.seen.contains(all));
            seen.insert(all);
        }
        varied += seen.size() > 1 ? 1 : 0;
    }
    INFO("seed " << seed << ": " << compared << " programs, " << varied << " with more than one outcome");
    CHECK((compared > 4 && varied > 0));
}
