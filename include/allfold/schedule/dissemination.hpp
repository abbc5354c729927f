// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <bit>

#include "allfold/schedule/detail/doubling.hpp"
#include "allfold/schedule/detail/exclusive_doubling.hpp"
#include "allfold/schedule/schedule_of.hpp"

/// @file
/// Dissemination: every rank sends to higher ranks, over distances that double.
///
///     P = 6: the ranks whose operands each rank has folded
///
///              inclusive_scan                       exclusive_scan
///     distance        1      2      4               1      2      3
///     rank 0   0                                    -
///          1   1      01                            0
///          2   2      12     0..2                   1      01
///          3   3      23     0..3                   2      0..2
///          4   4      34     1..4   0..4            3      1..3   0..3
///          5   5      45     2..5   0..5            4      2..4   0..4
///
/// A barrier does the same without data, and wraps around at the last rank.
///
/// With q = ⌈log2 P⌉ and m bytes: q rounds, the fewest possible, for every P. In a scan a rank sends at most q·m. It
/// folds at most q vectors in an inclusive scan, and at most q + q' - 2 in an exclusive one, q' - 1 of them only in
/// order to send them: q' is the least number of rounds in which a rank has to send its own operand along,
/// ⌈q - log2(2^q - P + 1)⌉.
///
/// Sources: D. Hensgen, R. Finkel, U. Manber, "Two Algorithms for Barrier Synchronization", 1988 (barrier);
/// W. D. Hillis, G. L. Steele, "Data Parallel Algorithms", 1986 (inclusive scan); J. L. Träff, "Two Efficient
/// Message-passing Exclusive Scan Algorithms", arXiv:2604.25667, 2026, the first of the two (exclusive scan).

namespace allfold {

/// The fewest rounds for barriers and scans at every P. It has no all_reduce: `recursive_doubling` has the fewest
/// rounds for that.
struct dissemination {
    static constexpr const char* name = "dissemination";

    class barrier : public schedule_of<dissemination> {
      public:
        static constexpr order keeps = order::tree;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return 0; }
        [[nodiscard]] constexpr int rounds() const noexcept { return detail::ceil_log2(size()); }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            const int distance = 1 << round;
            return {.to = peers::one((rank() + distance) % size()),
                    .from = peers::one((rank() + size() - distance) % size())};
        }
    };

    class inclusive_scan : public schedule_of<dissemination> {
      public:
        static constexpr order keeps = order::rank;
        static constexpr int scratch_slots = 2;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return 1; }
        [[nodiscard]] constexpr int rounds() const noexcept { return detail::ceil_log2(size()); }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            const int distance = 1 << round;
            const int folds = static_cast<int>(std::bit_width(static_cast<unsigned>(rank())));
            const int done = std::min(round, folds);
            step s{.source = detail::accumulator(done, folds)};
            if (rank() + distance < size()) {
                s.to = peers::one(rank() + distance);
                s.send = block_set::one(0);
            }
            if (rank() >= distance) {
                s.from = peers::one(rank() - distance);
                s.receive = block_set::one(0);
                s.how = fold::left;
                s.mine = s.source;
                s.into = detail::accumulator(done + 1, folds);
            }
            if (rank() == 0 && round == 0) s.local = keep_input(block_set::one(0));
            if (rank() == 1 && round == 0 && !s.send.empty()) detail::send_copy_of_input(s);
            return s;
        }
    };

    class exclusive_scan : public detail::exclusive_doubling<dissemination, detail::windows_in_fewest_rounds> {
      public:
        using exclusive_doubling::exclusive_doubling;
    };
};

}  // namespace allfold
