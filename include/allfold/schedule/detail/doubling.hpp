// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <bit>

#include "allfold/schedule/canonical_tree.hpp"
#include "allfold/schedule/step.hpp"

/// @file
/// Steps shared by algorithms with a logarithmic number of rounds.

namespace allfold::detail {

/// The least k with 2^k >= n.
[[nodiscard]] constexpr int ceil_log2(int n) noexcept {
    return static_cast<int>(std::bit_width(static_cast<unsigned>(n) - 1));
}

/// The slot that holds a rank's value after `done` of its `folds` folds: two scratch slots in alternation, so that no
/// step writes what it sends, and the result in the end.
[[nodiscard]] constexpr slot accumulator(int done, int folds) noexcept {
    if (done == folds) return slot::result;
    if (done == 0) return slot::input;
    return done % 2 ? slot::scratch_a : slot::scratch_b;
}

/// Makes the step send a copy of its input. If the first fold is also the last, the step would otherwise send the input
/// while it writes the result, which may be the same memory.
constexpr void send_copy_of_input(step& s) noexcept {
    s.local = {local_work::kind::copy_to_send, slot::input, slot::input, slot::scratch_a, s.send};
    s.source = slot::scratch_a;
}

/// Sends the whole vector to `partner` and folds in what it receives from there, on the side that keeps rank order.
[[nodiscard]] constexpr step exchange(int self, int partner, int done, int folds) noexcept {
    step s{.to = peers::one(partner),
           .send = block_set::one(0),
           .source = accumulator(done, folds),
           .from = peers::one(partner),
           .receive = block_set::one(0),
           .how = side_of(partner, self),
           .mine = accumulator(done, folds),
           .into = accumulator(done + 1, folds)};
    if (folds == 1) send_copy_of_input(s);
    return s;
}

/// The round that reduces P to a power of two: in each pair the higher rank folds in the operand of the lower one, and
/// represents both from then on.
[[nodiscard]] constexpr step fold_pair(int self, const power_of_two_fold& ranks, int blocks, slot into) noexcept {
    if (!ranks.paired(self)) return {};
    if (self % 2 == 0) return {.to = peers::one(self + 1), .send = block_set::all(blocks)};
    return {.from = peers::one(self - 1), .receive = block_set::all(blocks), .how = fold::left, .into = into};
}

/// The round that undoes this: the higher rank of each pair sends `blocks` of the result to the lower one.
[[nodiscard]] constexpr step give_back(int self, const power_of_two_fold& ranks, const block_set& blocks) noexcept {
    if (!ranks.paired(self)) return {};
    if (self % 2 == 0) return {.from = peers::one(self + 1), .receive = blocks};
    return {.to = peers::one(self - 1), .send = blocks, .source = slot::result};
}

}  // namespace allfold::detail
