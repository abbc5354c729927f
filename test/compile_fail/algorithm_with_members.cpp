// SPDX-License-Identifier: BSL-1.0
// expect: allfold: this type has a name and members, and counts as data: if it is an algorithm, let it declare `static constexpr bool has_parameters = true`
#include <vector>

#include "allfold/allfold.hpp"

struct rotated_ring {
    static constexpr const char* name = "rotated ring";
    int first = 0;
    using all_reduce = allfold::ring::all_reduce;
};

void caller(allfold::thread_communicator& comm, std::vector<float>& x) {
#ifdef ALLFOLD_MUST_COMPILE
    allfold::all_reduce(comm, x, allfold::sum(), allfold::ring());
#else
    allfold::all_reduce(comm, x, allfold::sum(), rotated_ring());
#endif
}
