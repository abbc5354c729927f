// SPDX-License-Identifier: BSL-1.0
// expect: allfold: the elements here are themselves arrays: pass a span or a tensor of what they contain

#include <span>

#include "allfold/allfold.hpp"

int main() {
    allfold::run(2, [](auto& comm) {
        int x[2][3] = {};
#ifdef ALLFOLD_MUST_COMPILE
        allfold::broadcast(comm, std::span(&x[0][0], 6));
#else
        allfold::broadcast(comm, x);
#endif
    });
}
