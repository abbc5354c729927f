// SPDX-License-Identifier: BSL-1.0
// expect: allfold: this operator folds whole ranges, but a range is folded element by element: make it the only element of a view, std::span(&range, 1)

#include <algorithm>
#include <iterator>
#include <span>
#include <vector>

#include "allfold/allfold.hpp"

using list = std::vector<int>;

int main() {
    allfold::self comm;
    list sorted(4);
    const auto merge = allfold::commutative([](const list& a, const list& b) {
        list both;
        std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
        return both;
    });
#ifdef ALLFOLD_MUST_COMPILE
    allfold::all_reduce(comm, std::span(&sorted, 1), merge);
#else
    allfold::all_reduce(comm, sorted, merge);
#endif
}
