// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>

#include "allfold/schedule/detail/doubling.hpp"
#include "allfold/schedule/schedule_of.hpp"

/// @file
/// A reduce_scatter over distances that double, near ranks first: in each round every rank passes partial folds up, and
/// folds in the ones it receives from below, in rank order, for every P.
///
///     P = 6: how block 2 reaches its rank, and whose operands it holds on the way; the other blocks do the same,
///     relative to their own ranks
///
///     distance 1     1 ──► 2   12      3 ──► 4   34      5 ──► 0   0 | 5
///     distance 2     0 ──► 2   012 | 5
///     distance 4     4 ──► 2   012 | 345
///     in the end               012345
///
/// In round k, at distance s = 2^k, rank r sends to r + s the blocks of the ranks r + d for all d with d mod 2s = s,
/// and folds in what it receives from r - s on the left. A partial fold covers consecutive ranks, possibly around the
/// end: the part of the last ranks is then kept apart from the part of the first ones, and the owner of the block
/// combines the two in the last round.
///
/// With q = ⌈log2 P⌉ and blocks of b = m / P bytes: q rounds and a last one without messages; a rank sends at most
/// 1.5·(P - 1)·b, since some blocks travel as two partial folds, and folds at most P·b. At a power of two
/// `recursive_halving` has as many rounds and sends less; at other P it has one more, and folds up to twice as much.
///
/// It is used only when a call names it, never by default. Compared with recursive halving (products of matrices, two
/// cores, medians of alternating runs), it takes, with Open MPI at P = 3, 5, 6, 7 and 12, 0.8 to 1.1x the time for 8 B
/// and 1 KiB and 0.97 to 1.3x for 64 KiB to 1 MiB; at P = 17 and 20, 1.1 to 1.4x up to 1 KiB; with MPICH at P = 3 and
/// 6, 1.1 to 1.5x up to 1 KiB. `direct`, the default up to 64 KiB, is 1.0 to 1.8 times faster. With threads, it is 1.0
/// to 1.5 times slower up to 1 KiB, and direct is 1.05 to 1.7 times faster. If ranks share cores, the additional
/// messages cost more than a round saves: it may do better if each rank has its own core.
///
/// Source: our own. It is the concatenation of J. Bruck, C. Ho, S. Kipnis, E. Upfal, D. Weathersby, "Efficient
/// Algorithms for All-to-All Communications in Multiport Message-Passing Systems", 1997, run backwards, nearest
/// distances first, with the partial folds that wrap around the end kept in two pieces.

namespace allfold {

/// The fewest rounds in rank order at every P.
struct near_first {
    static constexpr const char* name = "near first";

    class reduce_scatter : public schedule_of<near_first> {
      public:
        static constexpr order keeps = order::rank;
        static constexpr int scratch_slots = 2;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return size(); }
        [[nodiscard]] constexpr int rounds() const noexcept { return size() > 1 ? detail::ceil_log2(size()) + 1 : 0; }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            if (round + 1 == rounds()) return {.local = put_together()};
            const int distance = 1 << round;
            const bool goes_round = rank() < distance;  // receives folds of the last ranks
            const slot low = round == 0 ? slot::input : slot::scratch_a;
            return {.local = round == 0 ? keep_unfolded() : local_work{},
                    .to = peers::one((rank() + distance) % size()),
                    .send = blocks_from(distance, 2 * distance, size()),
                    .source = low,
                    .from = peers::one((rank() - distance + size()) % size()),
                    .receive = blocks_from(0, 2 * distance, size() - distance),
                    .how = rank() == distance - 1 ? fold::store : fold::left,  // the first to wrap around
                    .mine = goes_round ? slot::scratch_b : low,
                    .into = goes_round ? slot::scratch_b : slot::scratch_a,
                    .has_more = true};
        }
        /// The part of the last ranks, for partial folds that wrap around the end.
        [[nodiscard]] constexpr step also(int round) const noexcept {
            const int distance = 1 << round, to_end = size() - 1 - rank();
            step more{.source = slot::scratch_b, .into = slot::scratch_b};
            if (rank() < distance - 1) more.send = blocks_from(distance, 2 * distance, to_end);
            if (rank() >= distance && rank() < 2 * distance - 1)
                more.receive = blocks_from(0, 2 * distance, std::min(to_end, size() - distance));
            return more;
        }

      private:
        /// The blocks of the ranks first, first + stride, ... above this one, as far as these numbers are below `end`.
        [[nodiscard]] constexpr block_set blocks_from(int first, int stride, int end) const noexcept {
            if (end <= first) return {};
            const int from = (rank() + first) % size(), count = (end - first + stride - 1) / stride;
            const int straight = std::min(count, (size() - from + stride - 1) / stride);
            return {block_run{from, straight, stride, 1},
                    block_run{from + straight * stride - size(), count - straight, stride, 1}};
        }
        /// Blocks that are not folded in the first round are copied to the scratch slot: at rank 0 all that it keeps,
        /// elsewhere the last block if P is odd.
        [[nodiscard]] constexpr local_work keep_unfolded() const noexcept {
            local_work work{.what = local_work::kind::copy, .into = slot::scratch_a};
            if (rank() == 0)
                work.blocks = blocks_from(0, 2, size());
            else if (size() % 2 != 0)
                work.blocks = block_set::one(rank() - 1);
            return work.blocks.empty() ? local_work{} : work;
        }
        [[nodiscard]] constexpr local_work put_together() const noexcept {
            return {.what = rank() + 1 < size() ? local_work::kind::fold : local_work::kind::copy,
                    .left = slot::scratch_a,
                    .right = slot::scratch_b,
                    .blocks = block_set::one(rank())};
        }
    };
};

}  // namespace allfold
