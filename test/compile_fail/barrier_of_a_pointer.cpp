// SPDX-License-Identifier: BSL-1.0
// expect: allfold: the first argument must be the communicator: pass *team for a team, *pointer for a pointer to one

#include "allfold/allfold.hpp"

int main() {
    allfold::run(2, [](auto& comm) {
        auto* const all = &comm;
#ifdef ALLFOLD_MUST_COMPILE
        allfold::barrier(*all);
#else
        allfold::barrier(all);
#endif
    });
}
