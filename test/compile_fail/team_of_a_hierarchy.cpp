// SPDX-License-Identifier: BSL-1.0
// expect: allfold: this communicator forms no teams: make them of threads or of MPI processes, and a hierarchy of those

#include "allfold/collective/subset.hpp"
#include "allfold/transport/hierarchy.hpp"
#include "support/process.hpp"

int main() {
    process processes;
    allfold::run(processes, 2, [](auto& comm) {
#ifdef ALLFOLD_MUST_COMPILE
        allfold::barrier(comm);
#else
        const auto team = allfold::subset(comm, {0, 1});
#endif
    });
}
