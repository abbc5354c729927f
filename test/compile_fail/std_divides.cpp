// SPDX-License-Identifier: BSL-1.0
// expect: allfold: std::divides is not associative: fold with allfold::product{} and invert, or write an associative operator

#include <functional>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/diagnose.hpp"

int main() {
#ifdef ALLFOLD_MUST_COMPILE
    const allfold::product op;
#else
    const std::divides<double> op;
#endif
    if constexpr (allfold::detail::require_associative<decltype(op), double>()) return op(1.0, -1.0) > 0;
    return 0;
}
