// SPDX-License-Identifier: BSL-1.0
// expect: allfold: the operator cannot be called as T(const T&, const T&) on this element type: give it such a const call operator

#include "allfold/algebra/diagnose.hpp"

struct adder {
    static constexpr allfold::law_set laws = allfold::law::associative;
#ifdef ALLFOLD_MUST_COMPILE
    int operator()(int a, int b) const { return a + b; }
#else
    int operator()(int a, int b) { return a + b; }
#endif
};

int main() {
    if constexpr (allfold::detail::require_associative<adder, int>()) return adder{}(1, -1);
    return 0;
}
