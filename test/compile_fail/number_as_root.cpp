// SPDX-License-Identifier: BSL-1.0
// expect: allfold: unknown argument: after the data and the operator come options: root{}, shift{}, destinations{}, window{}, deadline{}, a partition, axis{}, shards{}, an order level such as order::tree, in_sync, out_sync, delegate::never, an algorithm such as ring{}; an output must be a variable or a view

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::self comm;
    std::vector<float> x(4);
#ifdef ALLFOLD_MUST_COMPILE
    allfold::broadcast(comm, x, allfold::root{0});
#else
    allfold::broadcast(comm, x, 0);
#endif
}
