// SPDX-License-Identifier: BSL-1.0
// expect: allfold: images are cut as a whole: they have no axis{}
#include <vector>

#include "allfold/allfold.hpp"

void caller(allfold::thread_communicator& comm, std::vector<int>& x, std::vector<int>& block) {
#ifdef ALLFOLD_MUST_COMPILE
    allfold::reduce_scatter(comm, allfold::images(x), block, allfold::sum());
#else
    allfold::reduce_scatter(comm, allfold::images(x), block, allfold::sum(), allfold::axis{0});
#endif
}
