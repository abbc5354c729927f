// SPDX-License-Identifier: BSL-1.0
// expect: allfold: the fold of a distributed array is one value: pass a variable for it after the array

#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::run(2, [](auto& comm) {
        std::vector<int> x(4);
        const allfold::block_cyclic layout{4, 0, 8};
#ifdef ALLFOLD_MUST_COMPILE
        int total = 0;
        allfold::all_reduce(comm, allfold::distributed(x, layout), total, allfold::sum());
#else
        allfold::all_reduce(comm, allfold::distributed(x, layout), allfold::sum());
#endif
    });
}
