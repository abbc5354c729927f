// SPDX-License-Identifier: BSL-1.0
// expect: allfold: what this operator folds cannot be stored in the output: give it lower(state, contributions), which returns an element of the output

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "allfold/allfold.hpp"

struct counted {
    using state = std::pair<float, int>;
    static constexpr allfold::law_set laws = allfold::law::associative | allfold::law::commutative;
    state operator()(const state& a, const state& b) const { return {a.first + b.first, a.second + b.second}; }
    static state lift(float x) { return {x, x > 0}; }
};
struct counted_in_total : counted {
    static float lower(const state& s, int) { return s.first; }
};

int main() {
    allfold::self comm;
    std::vector<float> x(4);
#ifdef ALLFOLD_MUST_COMPILE
    allfold::all_reduce(comm, x, counted_in_total{});
#else
    allfold::all_reduce(comm, x, counted{});
#endif
}
