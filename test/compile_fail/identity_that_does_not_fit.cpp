// SPDX-License-Identifier: BSL-1.0
// expect: allfold: the identity given to with_identity(op, e) does not fit what is folded: e must convert to the element type or, if op folds rows, be a std::tuple with one value for each tensor

#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::self comm;
    std::vector<int> x(4);
    const auto larger = allfold::commutative([](int a, int b) { return a < b ? b : a; });
#ifdef ALLFOLD_MUST_COMPILE
    allfold::exclusive_scan(comm, x, allfold::with_identity(larger, -1));
#else
    allfold::exclusive_scan(comm, x, allfold::with_identity(larger, -0.5));
#endif
}
