// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <optional>

#include "allfold/schedule/step.hpp"

/// @file
/// Two steps that ranks with shared memory run as one pass: "everyone folds its own block of all inputs in rank order,
/// then publishes it".
///
///     step by step     step 0: P - 1 messages to every rank, folded in rank order
///                      step 1: the outcome goes to those who want it
///     as one pass      every rank lends input and result to all others, reads its own block of all inputs, folds it in
///                      rank order, and stores it in the results of those who want it
///
/// A rank touches nothing but its own block of all inputs and results, and that block belongs to no other rank: so it
/// does not matter who comes first, in place neither. `prove` runs both ways.

namespace allfold {

/// What one rank does in the pass.
struct fused_pass {
    int block;       ///< its own
    peers targets;   ///< whose results get it,
    bool keeps_own;  ///< and whether its own result does
    friend constexpr bool operator==(const fused_pass&, const fused_pass&) = default;
};

namespace detail {

[[nodiscard]] constexpr bool is_one(const block_set& blocks, int block) noexcept {
    return blocks.size() == 1 && blocks[0] == block;
}

/// The rank gives every other one the block that bears its number, and folds what it gets with its own, in rank order.
template <schedule S>
[[nodiscard]] constexpr bool folds_own_block(const S& s, const step& now) {
    const int self = s.where().rank, size = s.where().size;
    if (now.local.what != local_work::kind::none || now.has_more) return false;
    if (now.to != peers::everyone() || now.source != slot::input) return false;
    if (now.from != peers::everyone() || now.received != addressed::alike || !is_one(now.receive, self)) return false;
    if (now.how != fold::in_rank_order || now.mine != slot::input) return false;
    for (int i = 0; i < size - 1; ++i)
        if (const int peer = now.to.at(i, self); !is_one(sent_to(s, now, 0, peer), peer)) return false;
    return true;
}

/// The rank sends its own block from `source` to some, and stores what it gets: from each peer the peer's block.
template <schedule S>
[[nodiscard]] constexpr bool publishes_own_block(const S& s, const step& now, slot source) {
    const int self = s.where().rank, size = s.where().size;
    if (now.local.what != local_work::kind::none || now.has_more) return false;
    const int targets = now.to.count(self, size), sources = now.from.count(self, size);
    if (targets > 0 && now.source != source) return false;
    if (sources > 0 && (now.how != fold::store || now.into != slot::result)) return false;
    for (int i = 0; i < targets; ++i)
        if (!is_one(sent_to(s, now, 1, now.to.at(i, self)), self)) return false;
    for (int i = 0; i < sources; ++i)
        if (const int peer = now.from.at(i, self); !is_one(received_from(s, now, 1, peer), peer)) return false;
    return true;
}

}  // namespace detail

/// The pass in which a rank may run the steps of `s`, if they are of this kind.
///
/// A rank sees its own steps only, yet all must decide alike. In a schedule that is proved, a rank of which this is
/// true has all others as partners in its first step; that these are then in such a step too, and do the same, is what
/// the prover checks: a schedule of which some ranks would run one pass and others two steps is no proved schedule.
template <schedule S>
[[nodiscard]] constexpr std::optional<fused_pass> fused(const S& s) {
    if (s.rounds() != 2 || s.blocks() != s.where().size) return std::nullopt;
    const step first = s[0];
    if (!detail::folds_own_block(s, first)) return std::nullopt;
    const step second = s[1];
    if (!detail::publishes_own_block(s, second, first.into)) return std::nullopt;
    return fused_pass{s.where().rank, second.to, first.into == slot::result};
}

}  // namespace allfold
