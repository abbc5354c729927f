// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>

#include "allfold/schedule/detail/doubling.hpp"
#include "allfold/schedule/schedule_of.hpp"
#include "allfold/schedule/step.hpp"

/// @file
/// Bruck's all_to_all: a block that has to move j ranks up is sent over the powers of two whose sum is j, together with
/// all other blocks that move over the same distance.
///
///     P = 6: what rank 0 sends, as the distances that blocks have to move
///
///     first      blocks are numbered by their distance: 0 stays
///     round 0    1, 3, 5 ──► 1
///     round 1    2, 3    ──► 2
///     round 2    4, 5    ──► 4
///     last       what has moved j up is stored as the block of the rank j below
///
/// With q = ⌈log2 P⌉ and m bytes at each rank: q rounds of one message, the fewest possible, and two without messages;
/// a rank sends about q·m/2, so this is for short messages. All blocks have the same length.
///
/// Source: J. Bruck, C. Ho, S. Kipnis, E. Upfal, D. Weathersby, "Efficient Algorithms for All-to-All Communications in
/// Multiport Message-Passing Systems", 1997, section 3.

namespace allfold {

/// The fewest rounds, for short messages.
struct bruck {
    static constexpr const char* name = "Bruck";

    class all_to_all : public schedule_of<bruck> {
      public:
        static constexpr order keeps = order::tree;
        static constexpr int scratch_slots = 2;
        static constexpr bool equal_blocks = true;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return size(); }
        [[nodiscard]] constexpr int rounds() const noexcept { return size() > 1 ? detail::ceil_log2(size()) + 2 : 0; }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            if (round == 0) return number_by_distance();
            if (round + 1 == rounds()) return number_by_origin();
            const int distance = 1 << (round - 1);
            const block_set travellers = with_bit(distance);
            return {
                .local = {local_work::kind::copy_to_send, slot::scratch_a, slot::input, slot::scratch_b, travellers},
                .to = peers::one((rank() + distance) % size()),
                .send = travellers,
                .source = slot::scratch_b,
                .from = peers::one((rank() + size() - distance) % size()),
                .receive = travellers,
                .into = slot::scratch_a};
        }

      private:
        [[nodiscard]] constexpr step number_by_distance() const noexcept {
            return {.local = {.what = local_work::kind::copy,
                              .into = slot::scratch_a,
                              .blocks = block_set::wrapping(rank(), size(), size()),
                              .targets = block_set::all(size())}};
        }
        [[nodiscard]] constexpr step number_by_origin() const noexcept {
            return {.local = {.what = local_work::kind::copy,
                              .left = slot::scratch_a,
                              .blocks = block_set::all(size()),
                              .targets = block_set::downwards(rank(), size(), size())}};
        }
        /// All block numbers below P in which `bit` is set.
        [[nodiscard]] constexpr block_set with_bit(int bit) const noexcept {
            const int groups = size() / (2 * bit), last = groups * 2 * bit + bit;
            return {block_run{bit, groups, 2 * bit, bit},
                    block_run{last, std::max(0, std::min(bit, size() - last)), 1, 1}};
        }
    };
};

}  // namespace allfold
