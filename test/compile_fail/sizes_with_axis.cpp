// SPDX-License-Identifier: BSL-1.0
// expect: allfold: by sizes, blocks lie one after another: pass no option that says where they are
#include <vector>

#include "allfold/allfold.hpp"

void caller(allfold::thread_communicator& comm, std::vector<int>& x, std::vector<int>& sizes, std::vector<int>& out) {
#ifdef ALLFOLD_MUST_COMPILE
    allfold::all_to_all(comm, x, sizes, out);
#else
    allfold::all_to_all(comm, x, sizes, out, allfold::split_axis{0});
#endif
}
