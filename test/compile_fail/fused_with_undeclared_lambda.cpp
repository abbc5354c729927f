// SPDX-License-Identifier: BSL-1.0
// expect: allfold: an operator in fused{...} is not declared associative on what it folds: wrap it in allfold::associative(op), or allfold::commutative(op)

#include <utility>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/fused.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/transport/self.hpp"

int main() {
    allfold::self comm;
    std::pair<int, int> x{1, 2};
    const auto times = [](int a, int b) { return a * b; };
#ifdef ALLFOLD_MUST_COMPILE
    allfold::all_reduce(comm, x, allfold::fused{allfold::max{}, allfold::commutative(times)});
#else
    allfold::all_reduce(comm, x, allfold::fused{allfold::max{}, times});
#endif
}
