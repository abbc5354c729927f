// SPDX-License-Identifier: BSL-1.0
// expect: allfold: the elements here are themselves ranges, which this operator does not fold: pass a span or a tensor of what they contain

#include <array>
#include <span>
#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::run(2, [](auto& comm) {
        std::vector<std::array<double, 3>> x(4);
#ifdef ALLFOLD_MUST_COMPILE
        allfold::all_reduce(comm, std::span(x.data()->data(), 12), allfold::sum());
#else
        allfold::all_reduce(comm, x, allfold::sum());
#endif
    });
}
