// SPDX-License-Identifier: BSL-1.0
#include <string>

#include "allfold/allfold.hpp"
#include "test/mpi/support/job.hpp"
#include "test/mpi/support/outcome.hpp"
#include "test/support/catch.hpp"
#include "test/support/random_program.hpp"

using namespace test;

TEST_CASE("random programs give what a sequential one gives, over MPI") {
    constexpr unsigned programs = 10;
    for (unsigned seed = 1; seed <= programs; ++seed) {
        const watchdog watch("random program " + std::to_string(seed));
        const auto mine = outcome_of([&] {
            allfold::mpi::communicator a(MPI_COMM_WORLD), b(MPI_COMM_WORLD);
            random_programs::runner(seed, a, b).run();
        });
        INFO("seed " << seed << ": " << mine.text);
        CHECK_FALSE(mine.code);
        CHECK(mine.text.empty());
    }
}
