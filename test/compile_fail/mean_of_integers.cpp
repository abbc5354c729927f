// SPDX-License-Identifier: BSL-1.0
// expect: allfold: the mean of integers is not an integer: convert them to floating point, or fold with allfold::sum{} and divide

#include "allfold/algebra/diagnose.hpp"
#include "allfold/algebra/mean.hpp"

#ifdef ALLFOLD_MUST_COMPILE
using element = double;
#else
using element = int;
#endif

int main() {
    if constexpr (allfold::detail::require_associative<allfold::mean, element>()) return 0;
    return 1;
}
