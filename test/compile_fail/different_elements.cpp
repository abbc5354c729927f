// SPDX-License-Identifier: BSL-1.0
// expect: allfold: input and output of this collective must have the same element type

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::self comm;
    std::vector<float> x(4);
    std::vector<double> y(4);
    std::vector<float> z(4);
#ifdef ALLFOLD_MUST_COMPILE
    allfold::all_reduce(comm, x, z, allfold::sum{});
#else
    allfold::all_reduce(comm, x, y, allfold::sum{});
#endif
}
