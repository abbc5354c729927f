// SPDX-License-Identifier: BSL-1.0
// expect: allfold: raw rows cannot be part of a distributed array, whose elements must have a type

#include <cstddef>
#include <span>
#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::self comm;
    std::vector<std::byte> x(16);
    const auto fold = allfold::commutative([](std::byte a, std::byte b) { return a | b; });
    const allfold::block_cyclic layout{8, 0, 16};
#ifdef ALLFOLD_MUST_COMPILE
    allfold::inclusive_scan(comm, allfold::distributed(x, layout), fold);
#else
    allfold::inclusive_scan(comm, allfold::distributed(allfold::raw_rows(x.data(), 2, 8, 8), layout), fold);
#endif
}
