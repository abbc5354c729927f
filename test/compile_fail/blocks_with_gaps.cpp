// SPDX-License-Identifier: BSL-1.0
// expect: allfold: the elements of this range are not contiguous in memory: copy them to a std::vector, of char if they are bools
#include <vector>

#include "allfold/allfold.hpp"

void caller(allfold::thread_communicator& comm, std::vector<bool>& x, std::vector<bool>& all) {
#ifdef ALLFOLD_MUST_COMPILE
    std::vector<std::vector<bool>> of_each(all.size() / x.size());
    allfold::all_gather(comm, x, of_each);
#else
    allfold::all_gather(comm, x, all);
#endif
}
