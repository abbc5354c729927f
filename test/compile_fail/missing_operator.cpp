// SPDX-License-Identifier: BSL-1.0
// expect: allfold: this collective needs an operator: pass one, such as sum{}

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
    allfold::all_reduce(comm, x);
#endif
}
