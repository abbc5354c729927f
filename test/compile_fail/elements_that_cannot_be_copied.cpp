// SPDX-License-Identifier: BSL-1.0
// expect: allfold: elements are copied from rank to rank, but this type cannot be copied

#include <memory>
#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::run(2, [](auto& comm) {
        std::vector<std::unique_ptr<int>> x(2);
#ifdef ALLFOLD_MUST_COMPILE
        std::vector<std::shared_ptr<int>> shared(2);
        allfold::all_to_all(comm, shared);
#else
        allfold::all_to_all(comm, x);
#endif
    });
}
