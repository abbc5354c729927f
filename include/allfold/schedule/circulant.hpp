// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include "allfold/schedule/compose.hpp"
#include "allfold/schedule/detail/doubling.hpp"
#include "allfold/schedule/schedule_of.hpp"

/// @file
/// A circulant graph: in each round every rank sends so many ranks up as about half of those that are left, and so many
/// blocks in one message.
///
///     P = 6, distances 3, 2, 1: what each rank r sends, as ranks above it that own the blocks, and what they hold
///
///                round 0              round 1          round 2
///     (to r+3)   3, 4, 5: r           (to r+2) 2: 2    (to r+1) 1: 4        operands in each
///                                                                           then block r is complete
///
///     all_gather, the other way: what each rank sends, as ranks above it whose blocks they are
///
///     (to r-1)   0                    (to r-2) 0       (to r-3) 0, 1, 2     then it has all of them
///
/// Distances are P halved, rounded up, as often as it takes to come to 1. What is left of a rank's partial folds after
/// a round of distance d are those of the blocks of the d ranks from its own on.
///
/// With q = ⌈log2 P⌉ and blocks of b = m / P bytes, for every P: q rounds, (P - 1)·b sent by every rank and (P - 1)·b
/// folded, the least possible rounds, volume and work at once; all_reduce takes twice the rounds and the volume.
/// Partial folds come from ranks that are not neighbours: a commutative operator is needed.
///
/// Source: J. L. Träff, "Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms", arXiv:2410.14234, 2024,
/// section 2. The all_gather at powers of two, and with other distances elsewhere, is that of J. Bruck et al.,
/// "Efficient Algorithms for All-to-All Communications in Multiport Message-Passing Systems", 1997, section 4.
/// Departure: blocks are named, and so none of them is rotated.

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
        /// Of an odd number of blocks nothing comes for the middle one in this round, which joins the partial folds.
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
    /// P halved `times` times, each time rounded up.
    [[nodiscard]] static constexpr int distance(int size, int times) noexcept { return ((size - 1) >> times) + 1; }
    [[nodiscard]] static constexpr int above(const schedule_of<circulant>& self, int ranks) noexcept {
        return (self.rank() + ranks) % self.size();
    }
    /// The blocks of `count` ranks, from the one that is so many above this one on.
    [[nodiscard]] static constexpr block_set blocks_from(const schedule_of<circulant>& self, int ranks,
                                                         int count) noexcept {
        return block_set::wrapping(above(self, ranks), count, self.size());
    }
};

}  // namespace allfold
