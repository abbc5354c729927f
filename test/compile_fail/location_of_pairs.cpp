// SPDX-License-Identifier: BSL-1.0
// expect: allfold: min_loc and max_loc fold allfold::located<T> values: write located{value, index}, not a pair

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::self comm;
    std::vector<float> x(4);
#ifdef ALLFOLD_MUST_COMPILE
    allfold::located<float> found{x[0], 0};
    allfold::all_reduce(comm, found, allfold::max_loc{});
#else
    std::pair<float, int> found{x[0], 0};
    allfold::all_reduce(comm, found, allfold::max_loc{});
#endif
}
