// SPDX-License-Identifier: BSL-1.0
// expect: allfold: all tensors of a list must have the same element type: make one call for each type

#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::run(2, [](auto& comm) {
        std::vector<float> x(4);
#ifdef ALLFOLD_MUST_COMPILE
        const std::vector<float> y(6);
        std::vector<float> out(10);
        allfold::all_reduce(comm, allfold::tensors{x, y}, out, allfold::sum());
#else
        std::vector<double> y(6);
        allfold::all_reduce(comm, allfold::tensors{x, y}, allfold::sum());
#endif
    });
}
