// SPDX-License-Identifier: BSL-1.0
// expect: allfold: no schedule can keep order::global: let it keep order::tree, which is as much if the operator is exact

#include "allfold/allfold.hpp"

struct boastful {
    static constexpr const char* name = "boastful";

    struct all_reduce : allfold::ring::all_reduce {
#ifndef ALLFOLD_MUST_COMPILE
        static constexpr allfold::order keeps = allfold::order::global;
#endif
        using allfold::ring::all_reduce::composed;
    };
};

int main() {
    allfold::self comm;
    int x = 0;
    allfold::all_reduce(comm, x, allfold::sum{}, boastful{});
}
