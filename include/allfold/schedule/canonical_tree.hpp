// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <bit>

/// @file
/// The canonical tree of P: the one bracketing of x0 ∘ ... ∘ x(P-1) shared by all schedules that promise `order::tree`.
///
///     P = 6:   0  1  2  3  4  5          rem = 6 - 4 = 2 pairs are folded first: 01 23,
///              └─01  └─23  │  │          then a balanced binary tree over the 4 leaves 01 23 4 5:
///                └──0123   45            ((01)(23))(45)
///                   └──012345

namespace allfold {

/// P ranks reduced to the largest power of two: the ranks below 2·extra form pairs, each of which makes one leaf.
/// (Rabenseifner, "Optimization of Collective Reduction Operations", 2004; as in MPICH's recursive doubling. The two
/// ranks of a pair are neighbours, the lower one on the left, so leaves represent consecutive ranks in order.)
struct power_of_two_fold {
    int size;
    int levels;  ///< log2 of the number of leaves
    int extra;   ///< size minus the number of leaves, which is the number of pairs

    constexpr explicit power_of_two_fold(int ranks) noexcept
        : size(ranks),
          levels(static_cast<int>(std::bit_width(static_cast<unsigned>(ranks))) - 1),
          extra(ranks - (1 << levels)) {}

    [[nodiscard]] constexpr int leaves() const noexcept { return 1 << levels; }
    [[nodiscard]] constexpr int rounds() const noexcept { return extra ? levels + 1 : levels; }
    [[nodiscard]] constexpr bool paired(int rank) const noexcept { return rank < 2 * extra; }
    [[nodiscard]] constexpr int leaf_of(int rank) const noexcept { return paired(rank) ? rank / 2 : rank - extra; }
    /// The lowest rank of a leaf; first_of(leaves()) is the number of ranks.
    [[nodiscard]] constexpr int first_of(int leaf) const noexcept { return leaf < extra ? 2 * leaf : leaf + extra; }
    /// The highest rank of a leaf, which represents its pair in most algorithms.
    [[nodiscard]] constexpr int last_of(int leaf) const noexcept { return first_of(leaf + 1) - 1; }
};

/// Where the canonical tree of `size` operands cuts its node [low, high): the node is [low, cut) ∘ [cut, high). 0 if
/// [low, high) is not an inner node of the tree. Proofs call this more often than anything else, so it does the
/// arithmetic of power_of_two_fold inline instead of calling it.
[[nodiscard]] constexpr int canonical_cut(int size, int low, int high) noexcept {
    if (low < 0 || high > size || high - low < 2) return 0;
    const int extra = size - static_cast<int>(std::bit_floor(static_cast<unsigned>(size))), paired = 2 * extra;
    if ((low < paired && low % 2 != 0) || (high < paired && high % 2 != 0)) return 0;  // splits a pair
    const int first = low < paired ? low / 2 : low - extra, last = high < paired ? high / 2 : high - extra;
    const int width = last - first;
    if (width == 1) return low + 1;  // a pair
    if ((width & (width - 1)) != 0 || first % width != 0) return 0;
    const int middle = first + width / 2;
    return middle < extra ? 2 * middle : middle + extra;
}

}  // namespace allfold
