// SPDX-License-Identifier: BSL-1.0
#include <cstdio>

#include <allfold/allfold.hpp>
#include <allfold/transport/hierarchy.hpp>
#include <allfold/transport/mpi.hpp>

int main() {
    return allfold::mpi::run([](auto& comm) {  // every process of the job is a rank
        double mine = comm.rank(), sum = 0;
        allfold::all_reduce(comm, mine, sum, allfold::sum{});

        allfold::run(comm, 2, [&](auto& threads) {  // two threads in each process, each of them a rank
            double greatest = threads.rank();
            allfold::all_reduce(threads, greatest, allfold::max{});
            if (threads.rank() == 0) std::printf("%g %g\n", sum, greatest);
        });
    });
}
