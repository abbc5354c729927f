// SPDX-License-Identifier: BSL-1.0
// expect: allfold: std::minus is not associative: fold with allfold::sum{} and negate, or write an associative operator

#include <functional>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/diagnose.hpp"

int main() {
#ifdef ALLFOLD_MUST_COMPILE
    const allfold::sum op;
#else
    const std::minus<> op;
#endif
    if constexpr (allfold::detail::require_associative<decltype(op), double>()) return op(1.0, -1.0) > 0;
    return 0;
}
