// SPDX-License-Identifier: BSL-1.0
// expect: allfold: the communicator must not be const: every call changes its state

#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::self comm;
    std::vector<float> x(4);
    const allfold::self& constant = comm;
#ifdef ALLFOLD_MUST_COMPILE
    allfold::all_reduce(comm, x, allfold::sum{});
#else
    allfold::all_reduce(constant, x, allfold::sum{});
#endif
}
