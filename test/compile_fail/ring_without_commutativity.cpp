// SPDX-License-Identifier: BSL-1.0
// expect: allfold: this schedule rotates the order of the operands and needs a commutative operator: write allfold::commutative(op) if it is, or choose one that keeps rank order: recursive_doubling{}, recursive_halving{}, direct{}

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::self comm;
    std::vector<std::string> x(4);
#ifdef ALLFOLD_MUST_COMPILE
    allfold::all_reduce(comm, x, std::plus<>{}, allfold::recursive_doubling{});
#else
    allfold::all_reduce(comm, x, std::plus<>{}, allfold::ring{});
#endif
}
