// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective/broadcast.hpp"
#include "allfold/collective/gather.hpp"
#include "allfold/collective/permute.hpp"
#include "allfold/collective/reduce.hpp"
#include "allfold/collective/scatter.hpp"

/// @file
/// Calls in which one rank names another root or permutation than all others, so that there may be no message between
/// ranks that disagree.

namespace test {

inline constexpr std::array disagreements{"gather",     "scatter",        "reduce",           "broadcast",
                                          "shift by 1", "no shift, as 0", "two ranks swapped"};

/// Makes one of these calls with blocks of `n` elements; the other root is the last rank.
template <class Comm>
void disagree(Comm& comm, std::size_t which, std::size_t n, bool is_odd) {
    const auto ranks = static_cast<std::size_t>(comm.size());
    std::vector<int> in(n * ranks, comm.rank()), out(n * ranks, -1);
    const std::span block(in.data(), n), result(out.data(), n);
    const allfold::root root{is_odd ? comm.size() - 1 : 0};
    std::vector<int> to(ranks);
    for (int r = 0; r < comm.size(); ++r) to[static_cast<std::size_t>(r)] = r;
    if (is_odd) std::swap(to.front(), to.back());
    switch (which) {
        case 0: return allfold::gather(comm, block, out, root);
        case 1: return allfold::scatter(comm, in, result, root);
        case 2: return allfold::reduce(comm, in, out, allfold::sum{}, root);
        case 3: return allfold::broadcast(comm, in, root);
        case 4: return allfold::permute(comm, in, out, allfold::shift{is_odd ? 1 : 0});
        case 5: return allfold::permute(comm, in, out, allfold::shift{is_odd ? 0 : 1});
        default: return allfold::permute(comm, in, out, allfold::destinations(to));
    }
}

}  // namespace test
