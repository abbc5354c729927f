// SPDX-License-Identifier: BSL-1.0
// expect: allfold: images and distributed arrays are folded by calls that wait, and not by start or prepare

#include "allfold/allfold.hpp"

int main() {
    allfold::run(2, [](auto& comm) {
        int a = 1, b = 2;
#ifdef ALLFOLD_MUST_COMPILE
        allfold::all_reduce(comm, allfold::images(a, b), allfold::sum());
#else
        allfold::all_reduce.start(comm, allfold::images(a, b), allfold::sum()).wait();
#endif
    });
}
