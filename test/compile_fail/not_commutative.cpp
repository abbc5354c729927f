// SPDX-License-Identifier: BSL-1.0
// expect: allfold: this schedule rotates the order of the operands and needs a commutative operator: write allfold::commutative(op) if it is, or choose one that keeps rank order: recursive_doubling{}, recursive_halving{}, direct{}

#include "allfold/algebra/diagnose.hpp"

int main() {
    const auto larger = [](int a, int b) { return a < b ? b : a; };
#ifdef ALLFOLD_MUST_COMPILE
    const auto op = allfold::commutative(larger);
#else
    const auto op = allfold::associative(larger);
#endif
    if constexpr (allfold::detail::require_commutative<decltype(op), int>()) return op(-1, 0);
    return 0;
}
