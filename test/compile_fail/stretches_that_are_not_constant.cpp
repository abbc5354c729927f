// SPDX-License-Identifier: BSL-1.0
// expect: allfold: an operator that takes many rows at once must be callable as op(stretch<const T> left, stretch<const T> right, stretch<T> out) when const; in_out(f) makes one from f(in, in_out)

#include <cstddef>
#include <vector>

#include "allfold/allfold.hpp"

using allfold::stretch;

#ifdef ALLFOLD_MUST_COMPILE
using operand = stretch<const double>;
#else
using operand = stretch<double>;
#endif

int main() {
    allfold::self comm;
    std::vector<double> x(4);
    const auto add = allfold::commutative([](operand left, operand right, stretch<double> out) {
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = left[i] + right[i];
    });
    allfold::all_reduce(comm, x, add);
}
