// SPDX-License-Identifier: BSL-1.0
// expect: allfold: a bool is a truth value: fold with allfold::logical_or{} or logical_and{}, or count in an int

#include "allfold/allfold.hpp"

int main() {
    allfold::run(2, [](auto& comm) {
        bool x = comm.rank() == 0;
#ifdef ALLFOLD_MUST_COMPILE
        allfold::all_reduce(comm, x, allfold::logical_or());
#else
        allfold::all_reduce(comm, x, allfold::sum());
#endif
    });
}
