// SPDX-License-Identifier: BSL-1.0
// expect: allfold: the samples are not contiguous in memory: pass them in an array or in braces

#include <vector>

#include "allfold/allfold.hpp"

int main() {
    const bool samples[] = {true, false};
#ifdef ALLFOLD_MUST_COMPILE
    const allfold::law_report report = allfold::check_laws(allfold::logical_or(), samples);
#else
    const std::vector<bool> copy(samples, samples + 2);
    const allfold::law_report report = allfold::check_laws(allfold::logical_or(), copy);
#endif
    return report ? 0 : 1;
}
