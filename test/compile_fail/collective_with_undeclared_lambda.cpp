// SPDX-License-Identifier: BSL-1.0
// expect: allfold: this operator is not declared associative: write allfold::associative(op), or allfold::commutative(op) if the order of operands does not matter either

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::self comm;
    std::vector<int> x(4);
    const auto add = [](int a, int b) { return a + b; };
#ifdef ALLFOLD_MUST_COMPILE
    allfold::all_reduce(comm, x, allfold::commutative(add));
#else
    allfold::all_reduce(comm, x, add);
#endif
}
