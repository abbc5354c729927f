// SPDX-License-Identifier: BSL-1.0
// expect: allfold: displacements specify only where blocks begin: specify their lengths with a partition, or input_blocks{} and output_blocks{}

#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::run(2, [](auto& comm) {
        const std::vector<int> x(4);
        std::vector<int> all(10);
#ifdef ALLFOLD_MUST_COMPILE
        allfold::all_gather(comm, x, all, allfold::displacements{0, 5}, allfold::partition::sizes(std::vector{4, 4}));
#else
        allfold::all_gather(comm, x, all, allfold::displacements{0, 5});
#endif
    });
}
