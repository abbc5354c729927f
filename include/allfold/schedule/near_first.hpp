// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>

#include "allfold/schedule/detail/doubling.hpp"
#include "allfold/schedule/schedule_of.hpp"

/// @file
/// A reduce_scatter over distances that double, near ranks first: in each round every rank hands partial folds up, and
/// folds in those that come from below, in rank order, for every P.
///
///     P = 6: how block 2 comes to its rank, and the ranks whose operands it has on the way; other blocks do the same,
///     counted from their own ranks
///
///     distance 1     1 ──► 2   12      3 ──► 4   34      5 ──► 0   0 | 5
///     distance 2     0 ──► 2   012 | 5
///     distance 4     4 ──► 2   012 | 345
///     in the end               012345
///
/// In round k, of the distance s = 2^k, rank r sends to r + s the blocks of the ranks r + d where d mod 2s is s, and
/// folds in what comes from r - s from the left. A partial fold is of ranks that follow each other, also round the end:
/// then those at the end are kept apart from those at the beginning, and put together by their owner at last.
///
/// With q = ⌈log2 P⌉ and blocks of b = m / P bytes: q rounds and a last one without messages; a rank sends at most
/// 1.5·(P - 1)·b, since of some blocks two partial folds travel, and folds at most P·b. At a power of two
/// `recursive_halving` has as many rounds and sends less; elsewhere it has one more, and folds up to twice as much.
///
/// It is taken where it is named, and else never. To recursive halving, products of matrices, two cores, medians of
/// turns: Open MPI, P = 3, 5, 6, 7 and 12, of 8 B and 1 KiB 0.8 to 1.1 of the time, of 64 KiB to 1 MiB 0.97 to 1.3; P =
/// 17 and 20 1.1 to 1.4 up to 1 KiB; MPICH, P = 3 and 6, 1.1 to 1.5 up to 1 KiB. `direct`, which is taken for up to 64
/// KiB, is 1.0 to 1.8 times faster. Threads: 1.0 to 1.5 times slower up to 1 KiB, direct 1.05 to 1.7 times faster.
/// Where ranks share processors more messages cost more than a round: it may do better where each has one.
///
/// Source: our own. It is the concatenation of J. Bruck, C. Ho, S. Kipnis, E. Upfal, D. Weathersby, "Efficient
/// Algorithms for All-to-All Communications in Multiport Message-Passing Systems", 1997, backwards, over the near
/// distances first, with the partial folds that go round the end in two pieces.

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
            const bool goes_round = rank() < distance;  // what comes is of ranks at the end
            const slot low = round == 0 ? slot::input : slot::scratch_a;
            return {.local = round == 0 ? keep_unfolded() : local_work{},
                    .to = peers::one((rank() + distance) % size()),
                    .send = blocks_from(distance, 2 * distance, size()),
                    .source = low,
                    .from = peers::one((rank() - distance + size()) % size()),
                    .receive = blocks_from(0, 2 * distance, size() - distance),
                    .how = rank() == distance - 1 ? fold::store : fold::left,  // the first that goes round
                    .mine = goes_round ? slot::scratch_b : low,
                    .into = goes_round ? slot::scratch_b : slot::scratch_a,
                    .has_more = true};
        }
        /// The ranks at the end, of what goes round it.
        [[nodiscard]] constexpr step also(int round) const noexcept {
            const int distance = 1 << round, to_end = size() - 1 - rank();
            step more{.source = slot::scratch_b, .into = slot::scratch_b};
            if (rank() < distance - 1) more.send = blocks_from(distance, 2 * distance, to_end);
            if (rank() >= distance && rank() < 2 * distance - 1)
                more.receive = blocks_from(0, 2 * distance, std::min(to_end, size() - distance));
            return more;
        }

      private:
        /// The blocks of the ranks that are first, first + stride, ... above this one, fewer than `end`.
        [[nodiscard]] constexpr block_set blocks_from(int first, int stride, int end) const noexcept {
            if (end <= first) return {};
            const int from = (rank() + first) % size(), count = (end - first + stride - 1) / stride;
            const int straight = std::min(count, (size() - from + stride - 1) / stride);
            return {block_run{from, straight, stride, 1},
                    block_run{from + straight * stride - size(), count - straight, stride, 1}};
        }
        /// What is not folded in the first round goes on from scratch: at rank 0 everything, elsewhere the last block
        /// of an odd number.
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
