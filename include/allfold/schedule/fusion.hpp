// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <cstdint>
#include <optional>

#include "allfold/schedule/step.hpp"

/// @file
/// Steps that ranks with shared memory run as a single pass: "every rank folds its own block of all inputs in rank
/// order, then publishes it", or, in a scan, publishes every prefix of it. Likewise without a fold: "the root deals out
/// its blocks, then every rank publishes its own", and "every rank hands out its own block".
///
///     step by step     step 0: P - 1 messages to every rank, folded in rank order; or its block from the root
///                      step 1: the outcome is sent to the ranks that want it; or to each rank its prefix
///     as one pass      every rank lends input and result to all others, reads its own block of all inputs, folds it in
///                      rank order, and stores it in the results of the ranks that want it; or in each its prefix;
///                      or copies it there, from the root or from itself
///
/// A rank touches only its own block of all inputs and results, and no other rank touches that block, so the order in
/// which ranks arrive does not matter, even in place. `prove` checks both variants.

namespace allfold {

/// What a rank's result gets of a block.
enum class share : std::uint8_t {
    fold,           ///< of all operands
    prefix,         ///< of the operands up to and including its own
    prefix_before,  ///< of the operands below its own: rank 0 gets the identity
    copy            ///< of one operand: nothing is folded
};

/// What one rank does in the pass.
struct fused_pass {
    int block;       ///< this rank's own block
    peers targets;   ///< the ranks whose results get their share of it,
    bool keeps_own;  ///< and whether this rank's result does too
    share each = share::fold;
    int source = -1;  ///< of a copy: the rank whose input is copied

    /// The number of operands, counted from rank 0, that the share of a rank is folded from.
    [[nodiscard]] constexpr int operands_of(int rank, int size) const noexcept {
        if (each == share::copy) return 1;
        return each == share::fold ? size : each == share::prefix ? rank + 1 : rank;
    }
    friend constexpr bool operator==(const fused_pass&, const fused_pass&) = default;
};

namespace detail {

[[nodiscard]] constexpr bool is_one(const block_set& blocks, int block) noexcept {
    return blocks.size() == 1 && blocks[0] == block;
}

/// Whether the rank sends each peer p block p of its input, and folds what it receives with its own block as `how`
/// says.
template <schedule S>
[[nodiscard]] constexpr bool folds_own_block(const S& s, const step& now, fold how) {
    const int self = s.where().rank, size = s.where().size;
    if (now.local.what != local_work::kind::none || now.has_more) return false;
    if (now.to != peers::everyone() || now.source != slot::input) return false;
    if (now.from != peers::everyone() || now.received != addressed::alike || !is_one(now.receive, self)) return false;
    if (now.how != how || now.mine != slot::input) return false;
    for (int i = 0; i < size - 1; ++i)
        if (const int peer = now.to.at(i, self); !is_one(sent_to(s, now, 0, peer), peer)) return false;
    return true;
}

/// Whether the rank stores what it receives in this round, and gets from each peer that peer's block.
template <schedule S>
[[nodiscard]] constexpr bool stores_blocks_of_peers(const S& s, const step& now, int round) {
    const int self = s.where().rank, sources = now.from.count(self, s.where().size);
    if (sources > 0 && (now.how != fold::store || now.into != slot::result)) return false;
    for (int i = 0; i < sources; ++i)
        if (const int peer = now.from.at(i, self); !is_one(received_from(s, now, round, peer), peer)) return false;
    return true;
}
/// Whether all that the rank sends in this round is its own block, from `source`.
template <schedule S>
[[nodiscard]] constexpr bool sends_own_block(const S& s, const step& now, int round, slot source) {
    const int self = s.where().rank, targets = now.to.count(self, s.where().size);
    if (targets > 0 && now.source != source) return false;
    for (int i = 0; i < targets; ++i)
        if (!is_one(sent_to(s, now, round, now.to.at(i, self)), self)) return false;
    return true;
}

/// Whether the rank sends its own block from `source` to some peers, and stores theirs.
template <schedule S>
[[nodiscard]] constexpr bool publishes_own_block(const S& s, const step& now, slot source) {
    if (now.local.what != local_work::kind::none || now.has_more) return false;
    return sends_own_block(s, now, 1, source) && stores_blocks_of_peers(s, now, 1);
}

/// Whether `work` copies these blocks of the input to the result.
[[nodiscard]] constexpr bool keeps_input(const local_work& work, const block_set& blocks) {
    return work.what == local_work::kind::copy && work.left == slot::input && work.into == slot::result &&
           work.blocks == blocks && work.targets.empty();
}
/// Whether `work` changes nothing: if blocks are copied at all, then to where they already are.
[[nodiscard]] constexpr bool is_idle(const local_work& work) {
    return work.what == local_work::kind::none ||
           (work.what == local_work::kind::copy && work.left == work.into && work.targets.empty());
}

/// For a schedule of a single step: whether the rank sends its own block of the input to some peers, and may keep it.
template <schedule S>
[[nodiscard]] constexpr bool hands_out_own_block(const S& s, const step& now) {
    const bool keeps = keeps_input(now.local, block_set::one(s.where().rank));
    if (now.has_more || (!keeps && now.local.what != local_work::kind::none)) return false;
    const slot source = keeps && now.source == slot::result ? slot::result : slot::input;
    return sends_own_block(s, now, 0, source) && stores_blocks_of_peers(s, now, 0);
}

/// Whether the root keeps its input and sends every other rank p block p.
template <schedule S>
[[nodiscard]] constexpr bool deals_blocks(const S& s, const step& now) {
    const int self = s.where().rank, size = s.where().size, root = s.where().root;
    if (now.has_more) return false;
    if (self != root)
        return is_idle(now.local) && now.to.count(self, size) == 0 && now.from == peers::one(root) &&
               now.how == fold::store && now.into == slot::result && is_one(received_from(s, now, 0, root), self);
    if (!keeps_input(now.local, block_set::all(size)) || now.from.count(self, size) != 0) return false;
    if (now.to.count(self, size) != size - 1) return false;
    if (now.source != slot::input && now.source != slot::result) return false;
    for (int i = 0; i < size - 1; ++i)
        if (const int peer = now.to.at(i, self); !is_one(sent_to(s, now, 0, peer), peer)) return false;
    return true;
}
/// Whether the rank sends its own block to every other rank, except perhaps to the root, which has it, and gets theirs.
template <schedule S>
[[nodiscard]] constexpr bool publishes_dealt_block(const S& s, const step& now) {
    const int self = s.where().rank, size = s.where().size, root = s.where().root;
    if (now.has_more || !is_idle(now.local)) return false;
    for (int r = 0; r < size; ++r)
        if (r != self && r != root && !now.to.contains(r, self)) return false;
    if (self != root && now.from.count(self, size) != size - 1) return false;
    return sends_own_block(s, now, 1, slot::result) && stores_blocks_of_peers(s, now, 1);
}

/// Whether the rank keeps its share of its own block, whose prefixes are in `source`, or else the identity of all
/// blocks.
[[nodiscard]] constexpr bool keeps_share(const local_work& work, slot source, int operands, int self, int size) {
    if (work.into != slot::result) return false;
    if (operands == 0)
        return work.what == local_work::kind::identity && work.blocks == block_set::all(size) && work.targets.empty();
    return work.what == local_work::kind::copy && work.left == source && is_one(work.blocks, operands - 1) &&
           is_one(work.targets, self);
}

/// Whether the rank sends every rank its share of this rank's block, unless that share is the identity, and gets its
/// own share of all other blocks.
template <schedule S>
[[nodiscard]] constexpr bool publishes_prefixes(const S& s, const step& now, slot source, const fused_pass& pass) {
    const int self = s.where().rank, size = s.where().size, own = pass.operands_of(self, size);
    if (allfold::scratch_of(s).only != self || now.source != source || now.has_more) return false;
    if (!keeps_share(now.local, source, own, self, size)) return false;
    for (int r = 0; r < size; ++r) {
        if (r == self) continue;
        const int operands = pass.operands_of(r, size);
        if (now.to.contains(r, self) != (operands > 0)) return false;
        if (operands > 0 && !is_one(sent_to(s, now, 1, r), operands - 1)) return false;
    }
    return now.from.count(self, size) == (own > 0 ? size - 1 : 0) && stores_blocks_of_peers(s, now, 1);
}

}  // namespace detail

/// The single pass that a rank may run in place of the steps of `s`, if they have this form.
///
/// A rank sees only its own steps, yet all ranks must decide alike. In a proved schedule, a rank that folds and whose
/// steps have this form has all other ranks as peers in its first step. The prover checks that these are then in such a
/// step too, and do the same: a schedule in which some ranks would run one pass and others two steps is not a proved
/// schedule.
///
/// If nothing is folded, a rank cannot tell from its own steps: a rank that sends its block to a root does the same
/// whatever else the root does. The schedule then has to declare it: `one_pass`.
template <schedule S>
[[nodiscard]] constexpr std::optional<fused_pass> fused_pass_of(const S& s) {
    if (s.rounds() < 1 || s.rounds() > 2 || s.blocks() != s.where().size) return std::nullopt;
    const int self = s.where().rank;
    const step first = s[0];
    if (s.rounds() == 1) {
        if (!allfold::may_be_one_pass(s) || !detail::hands_out_own_block(s, first)) return std::nullopt;
        return fused_pass{self, first.to, first.local.what == local_work::kind::copy, share::copy, self};
    }
    if (detail::folds_own_block(s, first, fold::in_rank_order)) {
        if (const step second = s[1]; detail::publishes_own_block(s, second, first.into))
            return fused_pass{self, second.to, first.into == slot::result};
    } else if (detail::folds_own_block(s, first, fold::prefixes_in_rank_order)) {
        const step second = s[1];
        for (const share each : {share::prefix, share::prefix_before})
            if (const fused_pass pass{self, peers::everyone(), true, each};
                detail::publishes_prefixes(s, second, first.into, pass))
                return pass;
    } else if (allfold::may_be_one_pass(s) && detail::deals_blocks(s, first) &&
               detail::publishes_dealt_block(s, s[1])) {
        return fused_pass{self, peers::everyone(), true, share::copy, s.where().root};
    }
    return std::nullopt;
}

}  // namespace allfold
