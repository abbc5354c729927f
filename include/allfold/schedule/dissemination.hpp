// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <bit>

#include "allfold/schedule/detail/doubling.hpp"
#include "allfold/schedule/schedule_of.hpp"

/// @file
/// Dissemination: every rank sends to the right over distances that double.
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
/// A barrier is the same without data, and goes round the end of the ranks.
///
/// With q = ⌈log2 P⌉ and m bytes: q rounds, the least there can be, for every P. In a scan a rank sends at most q·m; it
/// folds at most q vectors in an inclusive one, and at most q + q' - 2 in an exclusive one, where q' - 1 of them are
/// made to be sent: q' is the least number of rounds that has to send the own operand along, ⌈q - log2(2^q - P + 1)⌉.
///
/// Sources: D. Hensgen, R. Finkel, U. Manber, "Two Algorithms for Barrier Synchronization", 1988 (barrier);
/// W. D. Hillis, G. L. Steele, "Data Parallel Algorithms", 1986 (inclusive scan); J. L. Träff, "Two Efficient
/// Message-passing Exclusive Scan Algorithms", arXiv:2604.25667, 2026, the first of the two (exclusive scan).

namespace allfold {

namespace detail {

/// The windows of an exclusive scan: before round k a rank holds the fold of the `window(k)` ranks below it.
///
/// In the first q' rounds a rank sends its window together with its own operand, so that windows grow 0, 1, 3, 7, ...;
/// afterwards the window alone, which doubles. The last window is 2^q - 2^(q - q'); q' is the least for which it holds
/// all the P - 1 ranks below the last one.
struct exclusive_windows {
    int size;
    int rounds;         ///< q
    int with_mine = 0;  ///< q'

    constexpr explicit exclusive_windows(int ranks) noexcept : size(ranks), rounds(ceil_log2(ranks)) {
        while (window(rounds) < size - 1) ++with_mine;
    }
    [[nodiscard]] constexpr int window(int round) const noexcept {
        return round <= with_mine ? (1 << round) - 1 : ((1 << with_mine) - 1) << (round - with_mine);
    }
    /// How far messages go: next to the window.
    [[nodiscard]] constexpr int distance(int round) const noexcept {
        return round < with_mine ? window(round) + 1 : window(round);
    }
    /// Whether `rank` gets something: rank 0 has nothing to send but its own operand.
    [[nodiscard]] constexpr bool receives(int rank, int round) const noexcept { return rank > window(round); }
    /// In how many of the first `before` rounds `rank` receives; these are the first ones.
    [[nodiscard]] constexpr int received(int rank, int before) const noexcept {
        int n = 0;
        while (n < before && receives(rank, n)) ++n;
        return n;
    }
};

}  // namespace detail

/// The fewest rounds for barriers and scans at every P. It has no all_reduce: there `recursive_doubling` has the
/// fewest.
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

    class exclusive_scan : public schedule_of<dissemination> {
      public:
        static constexpr order keeps = order::rank;
        static constexpr int scratch_slots = 2;
        static constexpr bool in_place = false;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return 1; }
        [[nodiscard]] constexpr int rounds() const noexcept { return detail::ceil_log2(size()); }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            const detail::exclusive_windows windows(size());
            const int distance = windows.distance(round);
            step s;
            if (windows.receives(rank(), round)) receive(s, round, windows);
            if (rank() + distance < size() && (rank() > 0 || round < windows.with_mine)) send(s, round, windows);
            if (rank() == 0 && round + 1 == windows.rounds) s.local = set_identity(block_set::one(0));
            return s;
        }

      private:
        /// Where the fold of the window lies: in two slots in turn, in the end in the result.
        [[nodiscard]] constexpr slot accumulator(int round, const detail::exclusive_windows& windows) const noexcept {
            const int left = windows.received(rank(), windows.rounds) - windows.received(rank(), round);
            return left % 2 == 0 ? slot::result : slot::scratch_a;
        }
        constexpr void receive(step& s, int round, const detail::exclusive_windows& windows) const noexcept {
            s.from = peers::one(rank() - windows.distance(round));
            s.receive = block_set::one(0);
            s.how = round == 0 ? fold::store : fold::left;
            s.mine = accumulator(round, windows);
            s.into = accumulator(round + 1, windows);
        }
        constexpr void send(step& s, int round, const detail::exclusive_windows& windows) const noexcept {
            s.to = peers::one(rank() + windows.distance(round));
            s.send = block_set::one(0);
            if (round >= windows.with_mine) {
                s.source = accumulator(round, windows);
            } else if (round > 0 && rank() > 0) {
                s.local = {local_work::kind::fold, accumulator(round, windows), slot::input, slot::scratch_b, s.send};
                s.source = slot::scratch_b;
            }
        }
    };
};

}  // namespace allfold
