// SPDX-License-Identifier: BSL-1.0
// expect: allfold: this operator declares no identity, which rank 0 would get: write with_identity(op, e), or pass a variable, which rank 0 leaves unchanged

#include "allfold/allfold.hpp"

int main() {
    allfold::self comm;
    const auto larger = allfold::commutative([](int a, int b) { return a < b ? b : a; });
#ifdef ALLFOLD_MUST_COMPILE
    return allfold::exclusive_scan(comm, 7, allfold::with_identity(larger, 0));
#else
    return allfold::exclusive_scan(comm, 7, larger);
#endif
}
