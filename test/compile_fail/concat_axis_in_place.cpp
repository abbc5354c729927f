// SPDX-License-Identifier: BSL-1.0
// expect: allfold: in place, the output is cut as the input is: pass only split_axis{} and input_blocks{}

#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::run(2, [](auto& comm) {
        std::vector<int> memory(4);
        const allfold::tensor<int, 2> x(memory.data(), {2, 2});
#ifdef ALLFOLD_MUST_COMPILE
        allfold::all_to_all(comm, x, allfold::split_axis{0});
#else
        allfold::all_to_all(comm, x, allfold::split_axis{0}, allfold::concat_axis{1});
#endif
    });
}
