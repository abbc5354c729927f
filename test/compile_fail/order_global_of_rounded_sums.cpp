// SPDX-License-Identifier: BSL-1.0
// expect: allfold: order::global is for operators that are exact, such as exact_sum, and for distributed arrays: ask for order::tree or a weaker level

#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::run(2, [](auto& comm) {
        std::vector<float> x(4);
#ifdef ALLFOLD_MUST_COMPILE
        allfold::all_reduce(comm, x, allfold::exact_sum<float>(), allfold::order::global);
#else
        allfold::all_reduce(comm, x, allfold::sum(), allfold::order::global);
#endif
    });
}
