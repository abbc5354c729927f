// SPDX-License-Identifier: BSL-1.0
// expect: allfold: input and output of this collective must have the same element type
#include "allfold/allfold.hpp"

void caller(allfold::thread_communicator& comm, int& a, int& b) {
#ifdef ALLFOLD_MUST_COMPILE
    int total = 0;
#else
    signed char total = 0;
#endif
    allfold::all_reduce(comm, allfold::images(a, b), total, allfold::sum());
}
