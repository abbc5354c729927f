// SPDX-License-Identifier: BSL-1.0
// expect: allfold: this would send an address, not the data it points to: pass a view of the elements, such as std::span(pointer, count)
#include <span>

#include "allfold/allfold.hpp"

void caller(allfold::thread_communicator& comm, double* x) {
#ifdef ALLFOLD_MUST_COMPILE
    allfold::all_reduce(comm, std::span(x, 4), allfold::sum());
#else
    allfold::all_reduce(comm, x, 4, allfold::sum());
#endif
}
