// SPDX-License-Identifier: BSL-1.0
// expect: allfold: the first argument must be the communicator: pass *team for a team, *pointer for a pointer to one

#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::run(2, [](auto& comm) {
        std::vector<int> x(4);
        const auto half = allfold::split(comm, allfold::color{comm.rank() % 2});
#ifdef ALLFOLD_MUST_COMPILE
        allfold::all_reduce(*half, x, allfold::sum());
#else
        allfold::all_reduce(half, x, allfold::sum());
#endif
    });
}
