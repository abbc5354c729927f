// SPDX-License-Identifier: BSL-1.0
// expect: allfold: out_sync is for operands that outlive the call, since others may read them later: pass variables

#include <array>
#include <utility>

#include "allfold/allfold.hpp"

int main() {
    allfold::run(2, [](auto& comm) {
        std::array<double, 10000> x{};
#ifdef ALLFOLD_MUST_COMPILE
        allfold::broadcast(comm, x, allfold::out_sync::none);
        allfold::barrier(comm);
#else
        allfold::broadcast(comm, std::array<double, 10000>(x), x, allfold::out_sync::none);
#endif
    });
}
