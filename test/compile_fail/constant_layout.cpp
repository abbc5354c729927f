// SPDX-License-Identifier: BSL-1.0
// expect: allfold: by sizes, ranks find out the partition of the output: pass a variable for it after the output, which is not const, and no other partition

#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::self comm;
    const std::vector<float> x(4);
    const std::vector<int> sizes{4};
    std::vector<float> y;
    const auto constant = allfold::partition::even(4, 1);
    auto layout = constant;
#ifdef ALLFOLD_MUST_COMPILE
    allfold::all_to_all(comm, x, sizes, y, layout);
#else
    allfold::all_to_all(comm, x, sizes, y, constant);
#endif
}
