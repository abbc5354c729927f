// SPDX-License-Identifier: BSL-1.0
// expect: allfold: this argument is neither a contiguous range nor a tensor view: pass a single element as std::span(&x, 1)

#include <span>
#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::self comm;
    std::vector<int> x(4);
    int number = 1;
#ifdef ALLFOLD_MUST_COMPILE
    allfold::all_reduce(comm, allfold::tensors{x, std::span(&number, 1)}, allfold::sum());
#else
    allfold::all_reduce(comm, allfold::tensors{x, number}, allfold::sum());
#endif
}
