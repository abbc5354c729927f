// SPDX-License-Identifier: BSL-1.0
// expect: allfold: this collective has no root{}: reduce, broadcast, gather and scatter have one

#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::run(2, [](auto& comm) {
        std::vector<int> x(4);
#ifdef ALLFOLD_MUST_COMPILE
        allfold::reduce(comm, x, allfold::sum(), allfold::root{1});
#else
        allfold::all_reduce(comm, x, allfold::sum(), allfold::root{1});
#endif
    });
}
