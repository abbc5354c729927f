// SPDX-License-Identifier: BSL-1.0
// expect: allfold: at_front{} is for reduce_scatter in place, of a single operand without axis{}, shards{} or displacements{}: out of place, the output holds only the block

#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::run(2, [](auto& comm) {
        std::vector<int> x(4);
#ifdef ALLFOLD_MUST_COMPILE
        allfold::reduce_scatter(comm, x, allfold::sum(), allfold::at_front());
#else
        allfold::inclusive_scan(comm, x, allfold::sum(), allfold::at_front());
#endif
    });
}
