// SPDX-License-Identifier: BSL-1.0
// expect: allfold: this algorithm has no schedule for this collective (it has those of its nested types): name another one, or none

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::self comm;
    std::vector<float> x(4);
#ifdef ALLFOLD_MUST_COMPILE
    allfold::inclusive_scan(comm, x, allfold::sum{}, allfold::dissemination{});
#else
    allfold::inclusive_scan(comm, x, allfold::sum{}, allfold::ring{});
#endif
}
