// SPDX-License-Identifier: BSL-1.0
// expect: if raw rows are only moved, pass their bytes, and count bytes

#include <cstddef>
#include <span>
#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::self comm;
    std::vector<std::byte> in(16), out(32);
    using allfold::displacements;
#ifdef ALLFOLD_MUST_COMPILE
    allfold::all_gather(comm, in, out, allfold::partition::sizes({16}), displacements{8});
#else
    allfold::all_gather(comm, allfold::raw_rows(in.data(), 2, 8, 8), allfold::raw_rows(out.data(), 4, 8, 8),
                        allfold::partition::sizes({2}), displacements{1});
#endif
}
