// SPDX-License-Identifier: BSL-1.0
// expect: allfold: this argument would be destroyed before the operation completes: pass a variable or a view

#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::self comm;
    std::vector<long> x(4);
#ifdef ALLFOLD_MUST_COMPILE
    const auto part = allfold::all_reduce.with(x, allfold::sum{});
#else
    const auto part = allfold::all_reduce.with(std::vector<long>(4), allfold::sum{});
#endif
    allfold::persistent op = allfold::together.prepare(comm, part);
}
