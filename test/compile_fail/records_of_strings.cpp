// SPDX-License-Identifier: BSL-1.0
// expect: allfold: records fold rows of trivially copyable elements; fold a range of structs instead when an element owns memory

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::self comm;
    std::vector<std::string> x(4);
#ifdef ALLFOLD_MUST_COMPILE
    allfold::all_reduce(comm, x, std::plus<>{});
#else
    allfold::all_reduce(comm, allfold::records{x, x}, std::plus<>{});
#endif
}
