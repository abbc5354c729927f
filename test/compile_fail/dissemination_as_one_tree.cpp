// SPDX-License-Identifier: BSL-1.0
// expect: allfold: this schedule cannot give the order level that the call asks for: see `keeps` of the schedule, or name none and let allfold choose

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::self comm;
    std::vector<float> x(4);
#ifdef ALLFOLD_MUST_COMPILE
    allfold::inclusive_scan(comm, x, allfold::sum{}, allfold::order::tree);
#else
    allfold::inclusive_scan(comm, x, allfold::sum{}, allfold::dissemination{}, allfold::order::tree);
#endif
}
