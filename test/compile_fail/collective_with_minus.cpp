// SPDX-License-Identifier: BSL-1.0
// expect: allfold: std::minus is not associative: fold with allfold::sum{} and negate, or write an associative operator

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::self comm;
    std::vector<int> x(4);
#ifdef ALLFOLD_MUST_COMPILE
    allfold::inclusive_scan(comm, x, std::plus<>{});
#else
    allfold::inclusive_scan(comm, x, std::minus<>{});
#endif
}
