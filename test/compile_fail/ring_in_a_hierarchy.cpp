// SPDX-License-Identifier: BSL-1.0
// expect: allfold: only the first thread of each process communicates with other processes: name two_level, two_level_halving or no algorithm

#include <vector>

#include "allfold/transport/hierarchy.hpp"
#include "support/process.hpp"

int main() {
    process processes;
    allfold::run(processes, 2, [](auto& comm) {
        std::vector<float> x(4);
#ifdef ALLFOLD_MUST_COMPILE
        allfold::all_reduce(comm, x, allfold::sum{}, allfold::two_level{});
#else
        allfold::all_reduce(comm, x, allfold::sum{}, allfold::ring{});
#endif
    });
}
