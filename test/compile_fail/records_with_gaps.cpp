// SPDX-License-Identifier: BSL-1.0
// expect: allfold: the elements of this range are not contiguous in memory: copy them to a std::vector, of char if they are bools

#include <list>
#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::self comm;
    std::list<int> x(4);
    std::vector<int> y(4);
#ifdef ALLFOLD_MUST_COMPILE
    std::vector<int> copy(x.begin(), x.end());
    allfold::all_reduce(comm, allfold::records(copy, y), allfold::sum());
#else
    allfold::all_reduce(comm, allfold::records(x, y), allfold::sum());
#endif
}
