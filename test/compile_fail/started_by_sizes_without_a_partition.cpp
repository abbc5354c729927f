// SPDX-License-Identifier: BSL-1.0
// expect: allfold: start and prepare return an operation, not the partition of the output: pass a variable for that after the output

#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::self comm;
    const std::vector<float> x(4);
    const std::vector<int> sizes{4};
    std::vector<float> y;
    allfold::partition layout = allfold::partition::even(0, 1);
#ifdef ALLFOLD_MUST_COMPILE
    allfold::all_to_all.start(comm, x, sizes, y, layout).wait();
#else
    allfold::all_to_all.start(comm, x, sizes, y).wait();
#endif
}
