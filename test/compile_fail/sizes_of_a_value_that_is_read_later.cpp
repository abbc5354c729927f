// SPDX-License-Identifier: BSL-1.0
// expect: allfold: out_sync is for operands that outlive the call, since others may read them later: pass variables

#include <cstddef>
#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::run(2, [](auto& comm) {
        std::vector<double> x(100000), y;
        const std::vector<std::size_t> sizes{50000, 50000};
#ifdef ALLFOLD_MUST_COMPILE
        const allfold::partition layout = allfold::all_to_all(comm, x, sizes, y, allfold::out_sync::none);
#else
        const allfold::partition layout =
            allfold::all_to_all(comm, std::vector<double>(100000), sizes, y, allfold::out_sync::none);
#endif
        allfold::barrier(comm);
    });
}
