// SPDX-License-Identifier: BSL-1.0
// expect: allfold: the elements of this range are not contiguous in memory: copy them to a std::vector, of char if they are bools

#include <deque>
#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::run(2, [](auto& comm) {
        std::deque<int> x(4);
#ifdef ALLFOLD_MUST_COMPILE
        std::vector<int> copy(x.begin(), x.end());
        allfold::all_reduce(comm, copy, allfold::sum());
#else
        allfold::all_reduce(comm, x, allfold::sum());
#endif
    });
}
