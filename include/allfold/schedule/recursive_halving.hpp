// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include "allfold/schedule/detail/doubling.hpp"
#include "allfold/schedule/schedule_of.hpp"

/// @file
/// Recursive halving, near partners first: in each round a rank sends half of its blocks to a partner, over distances
/// that double, and folds in the partner's part of the other half. The all_gather takes the same rounds in reverse
/// order.
///
///     P = 6: the pairs 01 and 23 stand for one leaf each, so leaves 0 1 2 3 are ranks 1 3 4 5, their blocks 01 23 4 5
///
///     reduce_scatter     round 0      round 1                round 2                      round 3
///     rank 0             ──┐ all                                                          ◄─┐ block 0
///          1             ◄─┘ 01       ◄─┐ 014 of 0..3        ◄─┐ 01 of 0..5               ──┘
///          2             ──┐ all        │                      │                          ◄─┐ block 2
///          3             ◄─┘ 23       ◄─┘ 235 of 0..3        ◄─│┐ 23 of 0..5              ──┘
///          4                          ◄─┐ 014 of 45          ◄─┘│ 4 of 0..5
///          5                          ◄─┘ 235 of 45          ◄──┘ 5 of 0..5
///
/// After round k of the halving, leaf n holds the blocks of the leaves that agree with n in the last k + 1 bits.
/// Neighbours fold first, which keeps rank order; folding far partners first would make blocks contiguous, but does not
/// keep rank order.
///
/// With L = ⌊log2 P⌋ and blocks of b = m / P bytes, at a power of two: reduce_scatter and all_gather take L rounds
/// each, a rank sends (P - 1)·b in either and folds (P - 1)·b in the former; all_reduce is both. This is the least
/// possible volume. At other P there are two more rounds: a rank sends at most P·b in reduce_scatter,
/// (2·P + L - 3)·b in all_gather and (3·P + L - 4)·b in all_reduce, and folds at most (2·P + L - 2)·b. Each block is
/// bracketed as the canonical tree.
///
/// Source: R. Rabenseifner, "Optimization of Collective Reduction Operations", 2004. Departures: no block is moved,
/// messages name strided blocks instead; and all_reduce omits the two rounds in which a reduce_scatter would pass
/// blocks to the lower ranks of pairs and an all_gather would take them back.

namespace allfold {

namespace detail {

/// The blocks that belong to the leaves whose number ends in the same `bits` bits as `leaf`.
[[nodiscard]] constexpr block_set blocks_of_leaves(int leaf, int bits, const power_of_two_fold& ranks) noexcept {
    const int stride = 1 << bits, first = leaf & (stride - 1);
    const int pairs = first < ranks.extra ? (ranks.extra - first + stride - 1) / stride : 0;
    const int single = first + pairs * stride;
    const int singles = single < ranks.leaves() ? (ranks.leaves() - single + stride - 1) / stride : 0;
    return {block_run{ranks.first_of(first), pairs, 2 * stride, 2},
            block_run{ranks.first_of(single), singles, stride, 1}};
}

/// Halving and doubling between the leaves; the lower rank of a pair takes no part.
struct halving_of_leaves {
    int rank;
    power_of_two_fold ranks;

    constexpr halving_of_leaves(int self, int size) noexcept : rank(self), ranks(size) {}

    [[nodiscard]] constexpr int leaf() const noexcept { return ranks.leaf_of(rank); }
    [[nodiscard]] constexpr bool takes_part() const noexcept { return ranks.last_of(leaf()) == rank; }

    /// Round `level`, with the partial folds in `partial`; the last level stores into `into`.
    [[nodiscard]] constexpr step fold_half(int level, slot partial, slot into) const noexcept {
        if (!takes_part()) return {};
        const int partner = leaf() ^ (1 << level), peer = ranks.last_of(partner);
        const slot mine = level == 0 && !ranks.paired(rank) ? slot::input : partial;
        return {.to = peers::one(peer),
                .send = blocks_of_leaves(partner, level + 1, ranks),
                .source = mine,
                .from = peers::one(peer),
                .receive = blocks_of_leaves(leaf(), level + 1, ranks),
                .how = side_of(peer, rank),
                .mine = mine,
                .into = level + 1 == ranks.levels ? into : partial};
    }
    /// The mirror image: the partners exchange their complete blocks, so that both have them all.
    [[nodiscard]] constexpr step gather_half(int level) const noexcept {
        if (!takes_part()) return {};
        const int partner = leaf() ^ (1 << level), peer = ranks.last_of(partner);
        return {.to = peers::one(peer),
                .send = blocks_of_leaves(leaf(), level + 1, ranks),
                .source = slot::result,
                .from = peers::one(peer),
                .receive = blocks_of_leaves(partner, level + 1, ranks)};
    }
};

}  // namespace detail

/// The least volume in a logarithmic number of rounds, in rank order.
struct recursive_halving {
    static constexpr const char* name = "recursive halving";

    class reduce_scatter : public schedule_of<recursive_halving> {
      public:
        static constexpr order keeps = order::tree;
        static constexpr int scratch_slots = 1;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return size(); }
        [[nodiscard]] constexpr int rounds() const noexcept { return rounds_with_pairs(size(), 1); }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            const detail::halving_of_leaves between(rank(), size());
            const power_of_two_fold& ranks = between.ranks;
            const int level = ranks.extra ? round - 1 : round;
            if (level < 0) return detail::fold_pair(rank(), ranks, size(), slot::scratch_a);
            if (level == ranks.levels) return share_pair(ranks);
            return between.fold_half(level, slot::scratch_a, ranks.paired(rank()) ? slot::scratch_a : slot::result);
        }

      private:
        /// The higher rank of a pair has completed the blocks of both, and sends the lower rank its block.
        [[nodiscard]] constexpr step share_pair(const power_of_two_fold& ranks) const noexcept {
            step s = detail::give_back(rank(), ranks, block_set::one(rank() & ~1));
            if (s.to.which() == peers::kind::none) return s;
            s.local = {local_work::kind::copy, slot::scratch_a, slot::input, slot::result, block_set::one(rank())};
            s.source = slot::scratch_a;
            return s;
        }
    };

    class all_gather : public schedule_of<recursive_halving> {
      public:
        static constexpr order keeps = order::tree;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return size(); }
        [[nodiscard]] constexpr int rounds() const noexcept { return rounds_with_pairs(size(), 1); }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            step s = without_own(round);
            if (round == 0) s.local = keep_input(block_set::one(rank()));
            return s;
        }

      private:
        [[nodiscard]] constexpr step without_own(int round) const noexcept {
            const detail::halving_of_leaves between(rank(), size());
            const power_of_two_fold& ranks = between.ranks;
            const int level = ranks.levels - (ranks.extra ? round : round + 1);
            if (level == ranks.levels) return join_pair(ranks);
            if (level < 0) return detail::give_back(rank(), ranks, block_set::wrapping(rank() | 1, size() - 1, size()));
            return between.gather_half(level);
        }
        /// The higher rank of a pair gets the block of the lower one.
        [[nodiscard]] constexpr step join_pair(const power_of_two_fold& ranks) const noexcept {
            if (!ranks.paired(rank())) return {};
            const block_set lower = block_set::one(rank() & ~1);
            if (rank() % 2 == 0) return {.to = peers::one(rank() + 1), .send = lower, .source = slot::result};
            return {.from = peers::one(rank() - 1), .receive = lower};
        }
    };

    class all_reduce : public schedule_of<recursive_halving> {
      public:
        static constexpr order keeps = order::tree;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return size(); }
        [[nodiscard]] constexpr int rounds() const noexcept { return rounds_with_pairs(size(), 2); }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            const detail::halving_of_leaves between(rank(), size());
            const power_of_two_fold& ranks = between.ranks;
            const int level = ranks.extra ? round - 1 : round;
            if (level < 0) return detail::fold_pair(rank(), ranks, size(), slot::result);
            if (level == 2 * ranks.levels) return detail::give_back(rank(), ranks, block_set::all(size()));
            return level < ranks.levels ? between.fold_half(level, slot::result, slot::result)
                                        : between.gather_half(2 * ranks.levels - 1 - level);
        }
    };

  private:
    /// `times` · log2 of the number of leaves, and a round before and after for pairs.
    [[nodiscard]] static constexpr int rounds_with_pairs(int size, int times) noexcept {
        const power_of_two_fold ranks(size);
        return times * ranks.levels + (ranks.extra ? 2 : 0);
    }
};

}  // namespace allfold
