// SPDX-License-Identifier: BSL-1.0
// expect: allfold: a list of tensors is cut tensor by tensor, not along an axis or at displacements
#include <vector>

#include "allfold/allfold.hpp"

void caller(allfold::thread_communicator& comm, std::vector<int>& x, std::vector<int>& block) {
    const allfold::shards order{1, 0};
#ifdef ALLFOLD_MUST_COMPILE
    allfold::reduce_scatter(comm, allfold::tensors{x}, block, allfold::sum(), order);
#else
    allfold::reduce_scatter(comm, allfold::tensors{x}, block, allfold::sum(), allfold::axis{7}, order);
#endif
}
