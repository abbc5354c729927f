// SPDX-License-Identifier: BSL-1.0
// expect: allfold: this operator's lower cannot be called with what it folds: write lower(state, contributions), which returns a value, or for rows lower(state, contributions, out)

#include <vector>

#include "allfold/allfold.hpp"

struct halves : allfold::online_softmax {
#ifdef ALLFOLD_MUST_COMPILE
    static void lower(allfold::row<const float, const float, const float>, int, allfold::row<float, float, float>) {}
#else
    static void lower(allfold::row<float, float, float>) {}
#endif
};

int main() {
    allfold::self comm;
    std::vector<float> m(4), l(4), s(4);
    allfold::all_reduce(comm, allfold::records(m, l, s), halves{});
}
