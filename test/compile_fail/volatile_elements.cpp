// SPDX-License-Identifier: BSL-1.0
// expect: allfold: the elements are volatile: copy them to ordinary memory first

#include <span>

#include "allfold/allfold.hpp"

int main() {
    allfold::run(2, [](auto& comm) {
#ifdef ALLFOLD_MUST_COMPILE
        int x[4] = {};
#else
        volatile int x[4] = {};
#endif
        allfold::all_reduce(comm, std::span(x), allfold::sum());
    });
}
