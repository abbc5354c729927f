// SPDX-License-Identifier: BSL-1.0
// expect: allfold: this collective has no root{}: reduce, broadcast, gather and scatter have one

#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::self comm;
    std::vector<float> x(4);
#ifdef ALLFOLD_MUST_COMPILE
    allfold::permute(comm, x, allfold::shift{0});
#else
    allfold::permute(comm, x, allfold::shift{0}, allfold::root{0});
#endif
}
