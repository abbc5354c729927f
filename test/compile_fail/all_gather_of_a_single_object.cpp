// SPDX-License-Identifier: BSL-1.0
// expect: allfold: in place, this collective works on the blocks of all ranks, but this is a single object: pass a range, or an input and an output

#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::self comm;
    float x = 1;
    std::vector<float> all(1);
#ifdef ALLFOLD_MUST_COMPILE
    allfold::all_gather(comm, x, all);
#else
    allfold::all_gather(comm, x);
#endif
}
