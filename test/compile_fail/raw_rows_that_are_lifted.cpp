// SPDX-License-Identifier: BSL-1.0
// expect: allfold: raw rows are folded unconverted, but this operator has a lift: give them a type

#include <cstddef>
#include <vector>

#include "allfold/allfold.hpp"

#ifdef ALLFOLD_MUST_COMPILE
using state = std::byte;
#else
using state = std::size_t;
#endif

/// Lifts whatever is smaller than a state.
struct count_ones {
    static constexpr allfold::law_set laws = allfold::law::associative | allfold::law::commutative;
    state operator()(state a, state b) const { return static_cast<state>(std::size_t(a) + std::size_t(b)); }
    template <class T>
        requires(sizeof(T) < sizeof(state))
    state lift(const T& x) const {
        return static_cast<state>(x);
    }
};

int main() {
    allfold::self comm;
    std::vector<std::byte> x(16);
    allfold::all_reduce(comm, allfold::raw_rows(x.data(), 2, 8, 8), count_ones());
}
