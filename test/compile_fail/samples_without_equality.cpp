// SPDX-License-Identifier: BSL-1.0
// expect: allfold: these samples cannot be compared: give them an operator==, or pass after them a function equal(a, b) or, for numbers and ranges of them, within(tolerance)

#include "allfold/allfold.hpp"

int main() {
#ifdef ALLFOLD_MUST_COMPILE
    const allfold::law_report report = allfold::check_laws(allfold::sum(), {0.1, 0.2}, allfold::within(1e-6));
#else
    const allfold::law_report report = allfold::check_laws(allfold::sum(), {0.1, 0.2}, 1e-6);
#endif
    return report ? 0 : 1;
}
