// SPDX-License-Identifier: BSL-1.0
// expect: allfold: mark the color of split as such: split(comm, color{1}, key), or no_color for a rank that joins no team

#include "allfold/allfold.hpp"

int main() {
    allfold::run(2, [](auto& comm) {
#ifdef ALLFOLD_MUST_COMPILE
        const auto half = allfold::split(comm, allfold::color{comm.rank() % 2}, comm.rank());
#else
        const auto half = allfold::split(comm, comm.rank() % 2, comm.rank());
#endif
    });
}
