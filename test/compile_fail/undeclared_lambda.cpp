// SPDX-License-Identifier: BSL-1.0
// expect: allfold: this operator is not declared associative: write allfold::associative(op), or allfold::commutative(op) if the order of operands does not matter either

#include "allfold/algebra/diagnose.hpp"

int main() {
    const auto add = [](int a, int b) { return a + b; };
#ifdef ALLFOLD_MUST_COMPILE
    const auto op = allfold::commutative(add);
#else
    const auto op = add;
#endif
    if constexpr (allfold::detail::require_associative<decltype(op), int>()) return op(1, -1);
    return 0;
}
