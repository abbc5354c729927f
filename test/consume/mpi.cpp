// SPDX-License-Identifier: BSL-1.0

/// @file
/// A user's program: two processes of an MPI job add up eight ones each.

#include <cstdlib>
#include <iostream>
#include <vector>

#include <allfold/allfold.hpp>
#include <allfold/transport/mpi.hpp>

int main(int argc, char** argv) {
    constexpr int ranks = 2;
    MPI_Init(&argc, &argv);
    bool right = false;
    {
        allfold::mpi::communicator comm{MPI_COMM_WORLD};
        std::vector<float> x(8, 1.F);
        allfold::all_reduce(comm, x, allfold::sum{});
        // Under the mpirun of a different MPI there are two jobs of one rank each.
        right = comm.size() == ranks && x == std::vector<float>(8, ranks);
        std::cout << "rank " << comm.rank() << " of " << comm.size() << (right ? " holds" : " does not hold")
                  << " the sum\n";
    }
    MPI_Finalize();
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
