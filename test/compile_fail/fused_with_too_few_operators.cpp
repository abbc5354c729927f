// SPDX-License-Identifier: BSL-1.0
// expect: allfold: fused{...} needs one operator for each tensor of records, or member of a tuple, in the same order; each must fold those elements, in records with a state of the same type

#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/fused.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/data/records.hpp"
#include "allfold/transport/self.hpp"

int main() {
    allfold::self comm;
    std::vector<float> a(2), b(2), c(2);
#ifdef ALLFOLD_MUST_COMPILE
    allfold::all_reduce(comm, allfold::records(a, b, c),
                        allfold::fused{allfold::max{}, allfold::sum{}, allfold::sum{}});
#else
    allfold::all_reduce(comm, allfold::records(a, b, c), allfold::fused{allfold::max{}, allfold::sum{}});
#endif
}
