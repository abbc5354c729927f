// SPDX-License-Identifier: BSL-1.0
// expect: allfold: this algorithm was chosen for another collective: make an any_algorithm for this one

#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::self comm;
    std::vector<float> x(4);
#ifdef ALLFOLD_MUST_COMPILE
    const allfold::any_algorithm chosen(allfold::all_reduce, "ring");
#else
    const allfold::any_algorithm chosen(allfold::all_gather, "ring");
#endif
    allfold::all_reduce(comm, x, allfold::sum{}, chosen);
}
