// SPDX-License-Identifier: BSL-1.0
// expect: allfold: together takes calls: all_reduce.with(x, op), broadcast.with(y, root{1}), ...
#include "allfold/allfold.hpp"

void caller(allfold::thread_communicator& comm, int& x) {
#ifdef ALLFOLD_MUST_COMPILE
    allfold::together(comm, allfold::all_reduce.with(x, allfold::sum()));
#else
    allfold::together(comm, x, allfold::sum());
#endif
}
