// SPDX-License-Identifier: BSL-1.0
// expect: allfold: two options of the same kind in one call: pass one algorithm, one window, one order level

#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::self comm;
    std::vector<float> x(4);
#ifdef ALLFOLD_MUST_COMPILE
    allfold::all_reduce(comm, x, allfold::sum{}, allfold::in_sync::all);
#else
    allfold::all_reduce(comm, x, allfold::sum{}, allfold::in_sync::all, allfold::in_sync::mine);
#endif
}
