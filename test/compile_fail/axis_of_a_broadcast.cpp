// SPDX-License-Identifier: BSL-1.0
// expect: allfold: axis{}, shards{} and displacements{} are for reduce_scatter and all_gather, which cut an operand into a block for each rank; all_to_all has split_axis{}, concat_axis{}, input_displacements{} and output_displacements{}

#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::run(2, [](auto& comm) {
        std::vector<int> x(4);
#ifdef ALLFOLD_MUST_COMPILE
        allfold::broadcast(comm, x);
#else
        allfold::broadcast(comm, x, allfold::axis{0});
#endif
    });
}
