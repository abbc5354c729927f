// SPDX-License-Identifier: BSL-1.0
// expect: allfold: all images must have the same element type: make one call for each type
#include "allfold/allfold.hpp"

void caller(allfold::thread_communicator& comm, int& a) {
#ifdef ALLFOLD_MUST_COMPILE
    int b = 0;
#else
    double b = 0;
#endif
    allfold::all_reduce(comm, allfold::images(a, b), a, allfold::sum());
}
