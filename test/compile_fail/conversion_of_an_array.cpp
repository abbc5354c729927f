// SPDX-License-Identifier: BSL-1.0
// expect: allfold: input and output of this collective must have the same element type
#include <string>
#include <vector>

#include "allfold/allfold.hpp"

void caller(allfold::thread_communicator& comm, std::vector<double>& x) {
#ifdef ALLFOLD_MUST_COMPILE
    double total = 0;
#else
    std::string total;
#endif
    allfold::all_reduce(comm, allfold::distributed(x, allfold::block_cyclic{}), total, allfold::sum());
}
