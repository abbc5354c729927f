// SPDX-License-Identifier: BSL-1.0
// expect: allfold: this argument would be destroyed before the operation completes: pass a variable or a view

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
    allfold::all_reduce(comm, std::vector<float>(4), allfold::sum{});
#endif
}
