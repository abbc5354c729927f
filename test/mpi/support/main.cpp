// SPDX-License-Identifier: BSL-1.0

/// @file
/// The main function of tests over MPI: every process runs the same test cases in the same order.

#include <mpi.h>

#include "test/mpi/support/at_end.hpp"
#include "test/support/session.hpp"

int main(int argc, char* argv[]) {
    int level = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    const int failed = test::run_session(argc, argv);
    for (const auto done : test::at_end) done();
    MPI_Finalize();
    return failed;
}
