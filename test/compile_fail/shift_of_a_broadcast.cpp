// SPDX-License-Identifier: BSL-1.0
// expect: allfold: shift{} and destinations{} are for permute

#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::run(2, [](auto& comm) {
        std::vector<int> x(4);
#ifdef ALLFOLD_MUST_COMPILE
        allfold::permute(comm, x, allfold::shift{1});
#else
        allfold::broadcast(comm, x, allfold::shift{1});
#endif
    });
}
