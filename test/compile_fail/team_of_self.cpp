// SPDX-License-Identifier: BSL-1.0
// expect: allfold: this communicator cannot form teams: form them from a communicator of threads, MPI processes or a hierarchy

#include "allfold/collective/subset.hpp"
#include "allfold/transport/self.hpp"

int main() {
    allfold::self comm;
#ifdef ALLFOLD_MUST_COMPILE
    allfold::barrier(comm);
#else
    const auto team = allfold::subset(comm, {0});
#endif
}
