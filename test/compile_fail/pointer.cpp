// SPDX-License-Identifier: BSL-1.0
// expect: allfold: this would send an address, not the data it points to: pass a view of the elements, such as std::span(pointer, count)

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
    float* const first = x.data();
    allfold::broadcast(comm, std::span(first, x.size()));
#else
    float* first = x.data();
    allfold::broadcast(comm, first);
#endif
}
