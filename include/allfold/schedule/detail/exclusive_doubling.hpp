// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include "allfold/schedule/detail/doubling.hpp"
#include "allfold/schedule/schedule_of.hpp"

/// @file
/// Exclusive scans over distances that double: what the variants with different distances share.

namespace allfold::detail {

/// The windows of an exclusive scan: before round k a rank holds the fold of the `window(k)` ranks below it.
///
/// In the first q' rounds a rank sends its window together with its own operand, so that windows grow 0, 1, 3, 7, ...;
/// afterwards it sends the window alone, so that windows double. The window after q rounds is 2^q - 2^(q - q').
struct exclusive_windows {
    int size;
    int rounds;     ///< q
    int with_mine;  ///< q'

    [[nodiscard]] constexpr int window(int round) const noexcept {
        return round <= with_mine ? (1 << round) - 1 : ((1 << with_mine) - 1) << (round - with_mine);
    }
    /// Whether the final window covers all P - 1 ranks below the last rank.
    [[nodiscard]] constexpr bool reach_all() const noexcept { return window(rounds) >= size - 1; }
    /// How far messages travel: what is sent ends just below the receiver's window.
    [[nodiscard]] constexpr int distance(int round) const noexcept {
        return round < with_mine ? window(round) + 1 : window(round);
    }
    /// Whether `rank` receives in this round; rank 0 has no window to send, only its own operand.
    [[nodiscard]] constexpr bool receives(int rank, int round) const noexcept { return rank > window(round); }
    /// In how many of the first `before` rounds `rank` receives; it does so in the first ones, without gaps.
    [[nodiscard]] constexpr int received(int rank, int before) const noexcept {
        int n = 0;
        while (n < before && receives(rank, n)) ++n;
        return n;
    }
};

/// The windows with the least q, and the least q' for that.
[[nodiscard]] constexpr exclusive_windows windows_in_fewest_rounds(int size) noexcept {
    exclusive_windows all{size, ceil_log2(size), 0};
    while (!all.reach_all()) ++all.with_mine;
    return all;
}

/// The windows with the least q for a given q'.
template <int WithMine>
[[nodiscard]] constexpr exclusive_windows windows_with_mine(int size) noexcept {
    exclusive_windows all{size, 0, WithMine};
    while (!all.reach_all()) ++all.rounds;
    return all;
}

/// The exclusive scan of an algorithm with the windows `WindowsOf(size)`.
template <class Algorithm, exclusive_windows (*WindowsOf)(int) noexcept>
class exclusive_doubling : public schedule_of<Algorithm> {
  public:
    static constexpr order keeps = order::rank;
    static constexpr int scratch_slots = 2;
    static constexpr bool in_place = false;

    using schedule_of<Algorithm>::schedule_of;
    [[nodiscard]] constexpr int blocks() const noexcept { return 1; }
    [[nodiscard]] constexpr int rounds() const noexcept { return WindowsOf(this->size()).rounds; }
    [[nodiscard]] constexpr step operator[](int round) const noexcept {
        const exclusive_windows windows = WindowsOf(this->size());
        const int rank = this->rank(), distance = windows.distance(round);
        step s;
        if (windows.receives(rank, round)) receive(s, round, windows);
        if (rank + distance < this->size() && (rank > 0 || round < windows.with_mine)) send(s, round, windows);
        if (rank == 0 && round + 1 == windows.rounds) s.local = set_identity(block_set::one(0));
        return s;
    }

  private:
    /// The slot that holds the fold of the window: two slots in alternation, so that the last one is the result.
    [[nodiscard]] constexpr slot accumulator(int round, const exclusive_windows& windows) const noexcept {
        const int left = windows.received(this->rank(), windows.rounds) - windows.received(this->rank(), round);
        return left % 2 == 0 ? slot::result : slot::scratch_a;
    }
    constexpr void receive(step& s, int round, const exclusive_windows& windows) const noexcept {
        s.from = peers::one(this->rank() - windows.distance(round));
        s.receive = block_set::one(0);
        s.how = round == 0 ? fold::store : fold::left;
        s.mine = accumulator(round, windows);
        s.into = accumulator(round + 1, windows);
    }
    constexpr void send(step& s, int round, const exclusive_windows& windows) const noexcept {
        s.to = peers::one(this->rank() + windows.distance(round));
        s.send = block_set::one(0);
        if (round >= windows.with_mine) {
            s.source = accumulator(round, windows);
        } else if (round > 0 && this->rank() > 0) {
            s.local = {local_work::kind::fold, accumulator(round, windows), slot::input, slot::scratch_b, s.send};
            s.source = slot::scratch_b;
        }
    }
};

}  // namespace allfold::detail
