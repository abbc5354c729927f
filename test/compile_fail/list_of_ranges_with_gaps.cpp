// SPDX-License-Identifier: BSL-1.0
// expect: allfold: the elements of this range are not contiguous in memory: copy them to a std::vector, of char if they are bools

#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::self comm;
    std::vector<bool> x(4);
#ifdef ALLFOLD_MUST_COMPILE
    std::vector<char> copy(x.begin(), x.end());
    allfold::all_reduce(comm, allfold::tensors{copy}, allfold::logical_or());
#else
    allfold::all_reduce(comm, allfold::tensors{x}, allfold::logical_or());
#endif
}
