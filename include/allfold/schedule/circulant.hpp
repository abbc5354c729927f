// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include "allfold/schedule/compose.hpp"
#include "allfold/schedule/detail/doubling.hpp"
#include "allfold/schedule/schedule_of.hpp"

/// @file
/// A circulant graph with halving distances: in each round a rank sends the partial folds of half of the blocks it
/// still has, in one message. The all_gather runs the same graph backwards.
///
///     P = 6: what rank 0 does; the others do the same, relative to their own rank
///
///     reduce_scatter   distance 3          distance 2     distance 1
///     sends blocks     3, 4, 5 ──► 3       2 ──► 2        1 ──► 1
///     folds in         0, 1, 2 ◄── 3       0 ◄── 4        0 ◄── 5
///     has then         0, 1, 2 of 30       0 of 1430      0 of 251430
///
///     all_gather       distance 1          distance 2     distance 3
///     sends            0 ──► 5             0 ──► 4        0, 1, 2 ──► 3
///     stores           1 ◄── 1             2 ◄── 2        3, 4, 5 ◄── 3
///
/// The distances are P halved again and again, rounded up each time, down to 1. After the round of distance d a rank
/// still has partial folds of d blocks, its own and those of the d - 1 ranks above it.
///
/// With q = ⌈log2 P⌉ and blocks of b = m / P bytes, for every P: q rounds, in which every rank sends (P - 1)·b and
/// folds (P - 1)·b, the minimum of rounds, volume and work all at once; all_reduce takes twice the rounds and the
/// volume. Operands are folded in the order in which the distances bring them: a commutative operator is needed.
///
/// Source: J. L. Träff, "Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms", arXiv:2410.14234, 2024.
/// Except for the distances if P is not a power of two, the all_gather is that of J. Bruck, C. Ho, S. Kipnis, E. Upfal,
/// D. Weathersby, "Efficient Algorithms for All-to-All Communications in Multiport Message-Passing Systems", 1997
/// (concatenation). Departure: messages name their blocks, so no rank rotates its data.

namespace allfold {

/// The fewest rounds and the least volume at every P.
struct circulant {
    static constexpr const char* name = "circulant";

    class reduce_scatter : public schedule_of<circulant> {
      public:
        static constexpr order keeps = order::any;
        static constexpr int scratch_slots = 1;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return size(); }
        [[nodiscard]] constexpr int rounds() const noexcept { return detail::ceil_log2(size()); }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            const int held = distance(size(), round), up = distance(size(), round + 1);
            step s{.to = peers::one(above(*this, up)),
                   .send = blocks_from(*this, up, held - up),
                   .source = round == 0 ? slot::input : slot::scratch_a,
                   .from = peers::one(above(*this, size() - up)),
                   .receive = blocks_from(*this, 0, held - up),
                   .how = fold::left,
                   .into = round + 1 == rounds() ? slot::result : slot::scratch_a};
            s.mine = s.source;
            if (round == 0 && held % 2 != 0) s.local = keep_middle(up - 1);
            return s;
        }

      private:
        /// If the number of blocks is odd, nothing is received for the middle one in this round: it joins the partial
        /// folds unchanged.
        [[nodiscard]] constexpr local_work keep_middle(int middle) const noexcept {
            return {.what = local_work::kind::copy, .into = slot::scratch_a, .blocks = blocks_from(*this, middle, 1)};
        }
    };

    class all_gather : public schedule_of<circulant> {
      public:
        static constexpr order keeps = order::tree;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return size(); }
        [[nodiscard]] constexpr int rounds() const noexcept { return detail::ceil_log2(size()); }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            const int left = rounds() - round;
            const int wanted = distance(size(), left - 1), held = distance(size(), left);
            step s{.to = peers::one(above(*this, size() - held)),
                   .send = blocks_from(*this, 0, wanted - held),
                   .source = slot::result,
                   .from = peers::one(above(*this, held)),
                   .receive = blocks_from(*this, held, wanted - held)};
            if (round == 0) s.local = keep_input(block_set::one(rank()));
            return s;
        }
    };

    using all_reduce = composed<reduce_scatter, all_gather>;

  private:
    /// P halved `times` times, rounded up each time.
    [[nodiscard]] static constexpr int distance(int size, int times) noexcept { return ((size - 1) >> times) + 1; }
    [[nodiscard]] static constexpr int above(const schedule_of<circulant>& self, int ranks) noexcept {
        return (self.rank() + ranks) % self.size();
    }
    /// The blocks of `count` ranks, starting `ranks` above this one.
    [[nodiscard]] static constexpr block_set blocks_from(const schedule_of<circulant>& self, int ranks,
                                                         int count) noexcept {
        return block_set::wrapping(above(self, ranks), count, self.size());
    }
};

}  // namespace allfold
