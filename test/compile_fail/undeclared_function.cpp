// SPDX-License-Identifier: BSL-1.0
// expect: allfold: this operator is not declared associative: write allfold::associative(op), or allfold::commutative(op) if the order of operands does not matter either
#include <vector>

#include "allfold/allfold.hpp"

int larger(int a, int b);

void caller(allfold::thread_communicator& comm, std::vector<int>& x) {
#ifdef ALLFOLD_MUST_COMPILE
    allfold::all_reduce(comm, x, allfold::commutative(larger));
#else
    allfold::all_reduce(comm, x, larger);
#endif
}
