// SPDX-License-Identifier: BSL-1.0
// expect: allfold: the operator cannot be copied: hold the non-copyable part by pointer or std::shared_ptr

#include <memory>

#include "allfold/algebra/diagnose.hpp"

#ifdef ALLFOLD_MUST_COMPILE
using modulus = std::shared_ptr<const int>;
#else
using modulus = std::unique_ptr<const int>;
#endif

struct add_modulo {
    static constexpr allfold::law_set laws = allfold::law::associative;
    modulus m;
    int operator()(int a, int b) const { return (a + b) % *m; }
};

int main() {
    if constexpr (allfold::detail::require_associative<add_modulo, int>()) return 0;
    return 1;
}
