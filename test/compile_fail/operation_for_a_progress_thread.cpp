// SPDX-License-Identifier: BSL-1.0
// expect: allfold: what a progress thread calls must take the communicator by reference, as in [&](auto& comm) { return all_reduce.start(comm, x, sum{}); }

#include "allfold/allfold.hpp"

int main() {
    allfold::run(2, [](auto& comm) {
        int x = 0;
        allfold::progress_thread helper(comm);
#ifdef ALLFOLD_MUST_COMPILE
        helper.start([&](auto& other) { return allfold::all_reduce.start(other, x, allfold::sum()); }).wait();
#else
        helper.start(allfold::all_reduce.start(comm, x, allfold::sum())).wait();
#endif
    });
}
