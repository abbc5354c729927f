// SPDX-License-Identifier: BSL-1.0
// expect: allfold: the operator can be called neither as op(left, right, out) on these rows nor as T(const T&, const T&) on each of their element types: give it such a const call operator

#include "allfold/algebra/diagnose.hpp"
#include "allfold/algebra/online_softmax.hpp"

#ifdef ALLFOLD_MUST_COMPILE
using element = allfold::row<float, float, float>;
#else
using element = allfold::row<float, float>;
#endif

int main() {
    if constexpr (allfold::detail::require_associative<allfold::online_softmax, element>()) return 0;
    return 1;
}
