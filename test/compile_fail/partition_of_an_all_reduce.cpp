// SPDX-License-Identifier: BSL-1.0
// expect: allfold: a partition is for collectives that cut an operand into a block for each rank: reduce_scatter, gather, scatter, all_gather and all_to_all

#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::run(2, [](auto& comm) {
        std::vector<int> x(4);
        const auto blocks = allfold::partition::even(4, 2);
#ifdef ALLFOLD_MUST_COMPILE
        allfold::reduce_scatter(comm, x, allfold::sum(), blocks);
#else
        allfold::all_reduce(comm, x, allfold::sum(), blocks);
#endif
    });
}
