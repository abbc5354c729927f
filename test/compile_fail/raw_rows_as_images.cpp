// SPDX-License-Identifier: BSL-1.0
// expect: allfold: raw rows cannot be an image, whose elements must have a type

#include <cstddef>
#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::self comm;
    std::vector<std::byte> x(16), y(16);
    const auto fold = allfold::commutative([](std::byte a, std::byte b) { return a | b; });
#ifdef ALLFOLD_MUST_COMPILE
    allfold::all_reduce(comm, allfold::images(x, y), fold);
#else
    allfold::all_reduce(comm, allfold::images(x, allfold::raw_rows(y.data(), 2, 8, 8)), fold);
#endif
}
