// SPDX-License-Identifier: BSL-1.0
// expect: allfold: order::any needs a commutative operator: write allfold::commutative(op) if it is, or ask for no order, which keeps rank order

#include "allfold/allfold.hpp"

int main() {
    allfold::self comm;
    int x = 1;
    const auto right = allfold::associative([](int, int b) { return b; });
#ifdef ALLFOLD_MUST_COMPILE
    allfold::all_reduce(comm, x, right);
#else
    allfold::all_reduce(comm, x, right, allfold::order::any);
#endif
}
