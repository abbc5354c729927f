// SPDX-License-Identifier: BSL-1.0
// expect: allfold: a reduce_scatter of images writes a single block: pass one operand as the output

#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::self comm;
    std::vector<int> x(16), y(16);
#ifdef ALLFOLD_MUST_COMPILE
    allfold::reduce_scatter(comm, allfold::images(x, y), x, allfold::sum());
#else
    allfold::reduce_scatter(comm, allfold::images(x, y), allfold::sum());
#endif
}
