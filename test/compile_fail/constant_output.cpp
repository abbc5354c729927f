// SPDX-License-Identifier: BSL-1.0
// expect: allfold: the output of this collective must not be const

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::self comm;
    std::vector<float> x(4);
#ifdef ALLFOLD_MUST_COMPILE
    allfold::all_reduce(comm, x, allfold::sum{});
#else
    allfold::all_reduce(comm, std::as_const(x), allfold::sum{});
#endif
}
