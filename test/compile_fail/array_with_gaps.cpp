// SPDX-License-Identifier: BSL-1.0
// expect: allfold: the elements of this range are not contiguous in memory: copy them to a std::vector, of char if they are bools

#include <deque>
#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::self comm;
    const allfold::block_cyclic layout{.block = 2, .count = 4};
    std::deque<float> x(4);
    float total = 0;
#ifdef ALLFOLD_MUST_COMPILE
    std::vector<float> copy(x.begin(), x.end());
    allfold::all_reduce(comm, allfold::distributed(copy, layout), total, allfold::sum());
#else
    allfold::all_reduce(comm, allfold::distributed(x, layout), total, allfold::sum());
#endif
}
