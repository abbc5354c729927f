// SPDX-License-Identifier: BSL-1.0
// expect: allfold: a list of tensors is cut tensor by tensor: specify how with tensors{...}.by(partition::ceil)

#include <vector>

#include "allfold/allfold.hpp"

int main() {
    allfold::run(2, [](auto& comm) {
        std::vector<int> x(4), y(6), a(2), b(3);
        using allfold::tensors;
#ifdef ALLFOLD_MUST_COMPILE
        allfold::reduce_scatter(comm, tensors{x, y}.by(allfold::partition::ceil), tensors{a, b}, allfold::sum());
#else
        allfold::reduce_scatter(comm, tensors{x, y}, tensors{a, b}, allfold::sum(), allfold::partition::ceil(10, 2));
#endif
    });
}
