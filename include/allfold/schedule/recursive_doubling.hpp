// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include "allfold/schedule/detail/doubling.hpp"
#include "allfold/schedule/schedule_of.hpp"

/// @file
/// Recursive doubling: ranks exchange whole vectors over distances that double, so after k rounds a rank holds the fold
/// of 2^k neighbours.
///
///     P = 6     round 0    round 1    round 2    round 3
///     rank 0    ──┐                              ┌──►
///          1    ◄─┘ 01     ◄─┐ 0..3   ◄─┐ 0..5   └──
///          2    ──┐          │          │        ┌──►
///          3    ◄─┘ 23     ◄─┘ 0..3   ◄─│─┐ 0..5 └──
///          4               ◄─┐ 45     ◄─┘ │ 0..5
///          5               ◄─┘ 45     ◄───┘ 0..5
///
/// With L = ⌊log2 P⌋ and m bytes: L rounds, and 2 more if P is not a power of two; every rank sends at most L·m
/// (L·m + m if it represents a pair) and folds at most L (or L + 1) vectors. The value of the lower rank always goes on
/// the left, so rank order is kept and all ranks use the same bracketing: the canonical tree.
///
/// Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH", 2005.
/// P that is not a power of two is handled as in MPICH's code: the lower rank of a pair is folded into the higher one.

namespace allfold {

/// The fewest rounds for a short vector at a power of two.
struct recursive_doubling {
    static constexpr const char* name = "recursive doubling";

    class all_reduce : public schedule_of<recursive_doubling> {
      public:
        static constexpr order keeps = order::tree;
        static constexpr int scratch_slots = 2;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return 1; }
        [[nodiscard]] constexpr int rounds() const noexcept {
            const power_of_two_fold ranks(size());
            return ranks.extra ? ranks.levels + 2 : ranks.levels;
        }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            const power_of_two_fold ranks(size());
            const int level = ranks.extra ? round - 1 : round;
            if (level < 0) return detail::fold_pair(rank(), ranks, 1, slot::scratch_a);
            if (level == ranks.levels) return detail::give_back(rank(), ranks, block_set::one(0));
            return exchange(level, ranks);
        }

      private:
        /// The rounds between leaves; the lower rank of a pair takes no part in them.
        [[nodiscard]] constexpr step exchange(int level, const power_of_two_fold& ranks) const noexcept {
            const int leaf = ranks.leaf_of(rank());
            if (ranks.last_of(leaf) != rank()) return {};
            const int before = ranks.paired(rank()) ? 1 : 0;
            return detail::exchange(rank(), ranks.last_of(leaf ^ (1 << level)), level + before, ranks.levels + before);
        }
    };
};

}  // namespace allfold
