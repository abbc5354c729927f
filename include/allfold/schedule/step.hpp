// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <concepts>
#include <cstdint>

#include "allfold/schedule/block_set.hpp"
#include "allfold/schedule/contract.hpp"

/// @file
/// The vocabulary of schedules: who sends which blocks to whom in one round, and how received blocks are combined.

namespace allfold {

/// The peers of a step: none, one rank, or several at once (a k-ported step), numbered in rank order.
class peers {
  public:
    enum class kind : std::uint8_t { none, one, everyone, lower, higher, range, strided };

    constexpr peers() = default;
    [[nodiscard]] static constexpr peers one(int rank) noexcept { return {kind::one, rank}; }
    [[nodiscard]] static constexpr peers everyone() noexcept { return {kind::everyone, 0}; }  ///< all other ranks
    [[nodiscard]] static constexpr peers lower() noexcept { return {kind::lower, 0}; }        ///< all lower ranks
    [[nodiscard]] static constexpr peers higher() noexcept { return {kind::higher, 0}; }      ///< all higher ranks
    /// The ranks first, first + 1, ..., end - 1 except the rank itself: a group.
    [[nodiscard]] static constexpr peers range(int first, int end) noexcept { return {kind::range, first, end}; }
    /// The `count` ranks first, first + stride, ..., counted modulo `size`. They wrap around at most once and do not
    /// include the rank itself.
    [[nodiscard]] static constexpr peers strided(int first, int count, int stride, int size) noexcept {
        peers who(kind::strided, first);
        who.stride_ = stride;
        who.end_ = std::min(count, (size - first + stride - 1) / stride);  // those before the wrap-around
        who.wrapped_ = count - who.end_;
        who.wrapped_first_ = first + who.end_ * stride - size;
        return who;
    }

    [[nodiscard]] constexpr kind which() const noexcept { return kind_; }
    /// The number of peers of rank `self` out of `size` ranks.
    [[nodiscard]] constexpr int count(int self, int size) const noexcept {
        switch (kind_) {
            case kind::none: return 0;
            case kind::one: return 1;
            case kind::everyone: return size - 1;
            case kind::lower: return self;
            case kind::higher: return size - 1 - self;
            case kind::range: return std::max(0, end_ - rank_) - (spans(self) ? 1 : 0);
            case kind::strided: return wrapped_ + end_;
        }
        return 0;
    }
    /// The number of peers below `self`, which is the position of its own operand in an ordered fold.
    [[nodiscard]] constexpr int count_below(int self, int size) const noexcept {
        switch (kind_) {
            case kind::one: return rank_ < self ? 1 : 0;
            case kind::higher: return 0;
            case kind::range: return std::max(0, std::min(self, end_) - rank_);
            case kind::strided: return steps_below(self, wrapped_first_, wrapped_) + steps_below(self, rank_, end_);
            default: return std::min(self, count(self, size));
        }
    }
    /// The i-th peer of rank `self`, in rank order.
    [[nodiscard]] constexpr int at(int i, int self) const noexcept {
        switch (kind_) {
            case kind::one: return rank_;
            case kind::everyone: return i < self ? i : i + 1;
            case kind::higher: return self + 1 + i;
            case kind::range: return rank_ + i + (spans(self) && rank_ + i >= self ? 1 : 0);
            case kind::strided: return i < wrapped_ ? wrapped_first_ + i * stride_ : rank_ + (i - wrapped_) * stride_;
            default: return i;
        }
    }
    /// The index of `rank` among the peers of `self`: `at(index_of(rank, self), self) == rank`.
    [[nodiscard]] constexpr int index_of(int rank, int self) const noexcept {
        switch (kind_) {
            case kind::one: return 0;
            case kind::everyone: return rank < self ? rank : rank - 1;
            case kind::higher: return rank - self - 1;
            case kind::range: return rank - rank_ - (spans(self) && rank > self ? 1 : 0);
            case kind::strided:
                return rank >= rank_ ? wrapped_ + (rank - rank_) / stride_ : (rank - wrapped_first_) / stride_;
            default: return rank;
        }
    }
    [[nodiscard]] constexpr bool contains(int rank, int self) const noexcept {
        switch (kind_) {
            case kind::none: return false;
            case kind::one: return rank == rank_;
            case kind::everyone: return rank != self;
            case kind::lower: return rank < self;
            case kind::higher: return rank > self;
            case kind::range: return rank != self && spans(rank);
            case kind::strided: return is_step(rank, wrapped_first_, wrapped_) || is_step(rank, rank_, end_);
        }
        return false;
    }
    friend constexpr bool operator==(const peers&, const peers&) = default;

  private:
    constexpr peers(kind k, int rank, int end = 0) : kind_(k), rank_(rank), end_(end) {}
    [[nodiscard]] constexpr bool spans(int rank) const noexcept { return rank_ <= rank && rank < end_; }
    /// How many of the `count` ranks first, first + stride, ... are below `rank`.
    [[nodiscard]] constexpr int steps_below(int rank, int first, int count) const noexcept {
        return rank <= first ? 0 : std::min(count, (rank - first + stride_ - 1) / stride_);
    }
    /// Whether `rank` is one of them.
    [[nodiscard]] constexpr bool is_step(int rank, int first, int count) const noexcept {
        return rank >= first && (rank - first) % stride_ == 0 && (rank - first) / stride_ < count;
    }
    kind kind_ = kind::none;
    int rank_ = 0;           ///< the peer, or the first of several
    int end_ = 0;            ///< of a range; for strided peers, how many lie before the wrap-around
    int stride_ = 1;         ///< of strided peers
    int wrapped_ = 0;        ///< how many of them lie after the wrap-around
    int wrapped_first_ = 0;  ///< the first of those
};

/// Where the value of a block is stored at a rank. `input` is the caller's operand and is never written; `result` is
/// what the caller gets; the scratch slots hold intermediate values. A step never writes blocks in the slot that it
/// sends them from, because the peer may still be reading them. (An exchange of whole vectors satisfies this by
/// alternating between two slots.)
///
/// Each slot has its own blocks. Input and result have the blocks of the contract or, if the schedule does its own
/// cutting, as many as `blocks()` returns. A scratch slot has copies of these blocks; see `scratch_blocks`.
enum class slot : std::uint8_t { input, result, scratch_a, scratch_b };

/// Whether it is one of the scratch slots.
[[nodiscard]] constexpr bool is_scratch(slot where) noexcept {
    return where == slot::scratch_a || where == slot::scratch_b;
}

/// The blocks of a scratch slot, which may hold a partial result in several pieces. There are either `copies` copies of
/// every block, those of block b being numbered copies·b, copies·b + 1, ..., or `copies` copies of a single block,
/// numbered 0, 1, ...
struct scratch_blocks {
    int copies = 1;
    int only = -1;  ///< the single block; -1: all blocks

    [[nodiscard]] constexpr bool of_one_block() const noexcept { return only >= 0; }
    /// The number of scratch blocks if the other slots have `blocks` blocks.
    [[nodiscard]] constexpr int count(int blocks) const noexcept { return of_one_block() ? copies : blocks * copies; }
    /// The block that scratch block `block` is a copy of.
    [[nodiscard]] constexpr int copied(int block) const noexcept { return of_one_block() ? only : block / copies; }
};

/// How received blocks are combined with the local value. `mine` is this rank's value of the same block, in the slot
/// `step::mine`.
enum class fold : std::uint8_t {
    store,          ///< into ← received
    left,           ///< into ← received ∘ mine
    right,          ///< into ← mine ∘ received
    in_rank_order,  ///< into ← received from the lower peers, mine, received from the higher peers, folded in rank
                    ///< order and bracketed as the canonical tree of that many operands
    peers_in_rank_order,     ///< the same without mine: into ← received from all peers
    prefixes_in_rank_order,  ///< prefixes of the operands of `in_rank_order`: copy 0 of the one block in `into` ←
                             ///< operand 0; copy i ← copy i - 1 ∘ operand i
};

/// The fold that keeps rank order when `self` receives from `peer`: the value of a lower rank goes on the left.
[[nodiscard]] constexpr fold side_of(int peer, int self) noexcept { return peer < self ? fold::left : fold::right; }

/// What a fold amounts to if there is a single peer: an ordered fold then has no other messages to wait for.
[[nodiscard]] constexpr fold fold_of_one(fold how, int peer, int self) noexcept {
    return how == fold::in_rank_order ? side_of(peer, self) : how == fold::peers_in_rank_order ? fold::store : how;
}

/// Which blocks a k-ported step exchanges with each of its peers.
enum class addressed : std::uint8_t {
    alike,     ///< the same blocks with every peer
    per_peer,  ///< different blocks with each peer: block p with peer p, or what the schedule's `sent_to(round, peer)`
               ///< and `received_from(round, peer)` return
};

/// Work within a rank before a step sends: `into ← left` (copy), `into ← left ∘ right`, or `into ←` the identity (if
/// the operator has none, `into` stays as it is). With `copy_to_send`, the copy is exactly what this step sends, and
/// nothing else reads it: if posting a message copies it anyway, `left` is sent instead.
struct local_work {
    enum class kind : std::uint8_t { none, copy, copy_to_send, fold, identity };
    kind what = kind::none;
    slot left = slot::input;
    slot right = slot::input;
    slot into = slot::result;
    block_set blocks{};
    block_set targets{};  ///< a copy may store blocks under other numbers; empty: under their own

    [[nodiscard]] constexpr int target(int i) const noexcept { return targets.empty() ? blocks[i] : targets[i]; }
};

/// Copies `blocks` of the input to the result, at a rank whose input is part of the result.
[[nodiscard]] constexpr local_work keep_input(const block_set& blocks) noexcept {
    return {.what = local_work::kind::copy, .blocks = blocks};
}
/// Sets `blocks` of the result to the identity, at a rank whose result is a fold of no operands. Nothing may read them,
/// or store anything there before, since an operator need not have an identity.
[[nodiscard]] constexpr local_work set_identity(const block_set& blocks) noexcept {
    return {.what = local_work::kind::identity, .blocks = blocks};
}

/// One round of one rank. Sending and receiving happen at the same time; a side without peers is skipped. Order within
/// the step: first `local`, then send and receive together, then the fold. Messages are taken in the order of the peers
/// that they come from. An identity is set last, in blocks of the result.
///
/// The i-th block sent arrives as the i-th block received. A block that is stored may get another number this way, as
/// long as both have the same length; a block that is folded may not: the prover tracks whose operand, and which block
/// of it, each value is.
struct step {
    local_work local{};

    peers to{};
    block_set send{};
    addressed sent = addressed::alike;
    slot source = slot::input;  ///< where the sent blocks are read from

    peers from{};
    block_set receive{};
    addressed received = addressed::alike;
    fold how = fold::store;
    slot mine = slot::input;   ///< this rank's operand of the fold
    slot into = slot::result;  ///< where the outcome is stored

    /// The messages have a second part after these blocks: the schedule's `also(round)` returns a step that says which
    /// blocks it consists of and how they are combined. The peers and the local work of that step are ignored; its
    /// blocks are the same for all peers. If there are several peers, neither part may be folded in rank order.
    bool has_more = false;

    [[nodiscard]] constexpr bool idle() const noexcept {
        return to.which() == peers::kind::none && from.which() == peers::kind::none &&
               local.what == local_work::kind::none;
    }
    /// Whether the fold has to wait for the messages of all peers.
    [[nodiscard]] constexpr bool folds_in_order() const noexcept {
        return how == fold::in_rank_order || how == fold::peers_in_rank_order || folds_prefixes();
    }
    [[nodiscard]] constexpr bool folds_prefixes() const noexcept { return how == fold::prefixes_in_rank_order; }
};

/// A schedule: a pure value that returns any round of one rank at any time. `schedule_of` is its base.
///
/// 1. `keeps` is the strongest order level that it guarantees.
/// 2. `scratch_slots` is the number of scratch slots that its steps use (0, 1 or 2).
/// 3. `in_place` says that it stays correct if the result is in the same memory as the input.
/// 4. `s.blocks()` is the number of blocks the data is cut into: if the collective cuts for ranks, one for each rank; 0
///    in a barrier, whose messages are empty.
/// 5. `s.rounds()` is the number of steps, the same for every rank; `s[i]` is step i of this rank.
///
/// At P = 1 there are no rounds: the engine copies input to result itself.
///
/// Not required:
/// - `sent_to(round, peer)` and `received_from(round, peer)`: see `addressed`;
/// - `also(round)`: see `step`;
/// - `scratch()`, which returns `scratch_blocks`;
/// - `static constexpr bool equal_blocks`, for a schedule that stores blocks under the numbers of other blocks and so
///   needs all of them to have the same length;
/// - `static constexpr bool supports(int size)`, for one that does not exist for every P;
/// - `static constexpr bool grouped`, for one that knows which ranks share memory (the number of ranks is then a
///   multiple of `where().group`);
/// - `static constexpr bool one_pass`, for one that folds nothing, and whose steps are one pass in the sense of
///   `fused_pass_of` if they have that form;
/// - `static constexpr bool folds_once`, for one that folds only the operands themselves, never partial folds, and each
///   result in a single step.
///
/// The compiler cannot check that all of this holds; `analysis/prove.hpp` proves it.
template <class S>
concept schedule = std::copy_constructible<S> && requires(const S s, int round) {
    { s.keeps } -> std::convertible_to<order>;
    { s.scratch_slots } -> std::convertible_to<int>;
    { s.in_place } -> std::convertible_to<bool>;
    { s.blocks() } -> std::same_as<int>;
    { s.rounds() } -> std::same_as<int>;
    { s[round] } -> std::same_as<step>;
};

/// A schedule that knows which ranks share memory.
template <class S>
concept grouped_schedule = schedule<S> && requires { requires S::grouped; };

/// Whether `S` exists for this many ranks. Schedules that are not grouped ignore the group.
template <schedule S>
[[nodiscard]] constexpr bool supports(int size, [[maybe_unused]] int group = 1) noexcept {
    if constexpr (grouped_schedule<S>)
        if (group < 1 || size % group != 0) return false;
    if constexpr (requires { S::supports(size); })
        return S::supports(size);
    else
        return size > 0;
}

/// The blocks sent to `peer` in the step `now` of `s`, which is its round `round`.
template <class S>
[[nodiscard]] constexpr block_set sent_to(const S& s, const step& now, int round, int peer) {
    if (now.sent == addressed::alike) return now.send;
    if constexpr (requires { s.sent_to(round, peer); })
        return s.sent_to(round, peer);
    else
        return block_set::one(peer);
}
/// The blocks received from `peer` in that step.
template <class S>
[[nodiscard]] constexpr block_set received_from(const S& s, const step& now, int round, int peer) {
    if (now.received == addressed::alike) return now.receive;
    if constexpr (requires { s.received_from(round, peer); })
        return s.received_from(round, peer);
    else
        return block_set::one(peer);
}

/// The second part of the messages of a step that has one: see `step::has_more`.
template <class S>
[[nodiscard]] constexpr step also_of(const S& s, int round) {
    if constexpr (requires { s.also(round); })
        return s.also(round);
    else
        return {};
}

/// The blocks that the scratch slots have.
template <class S>
[[nodiscard]] constexpr scratch_blocks scratch_of(const S& s) noexcept {
    if constexpr (requires { s.scratch(); })
        return s.scratch();
    else
        return {};
}

/// Whether a schedule needs all blocks to have the same length.
template <class S>
inline constexpr bool needs_equal_blocks = [] {
    if constexpr (requires { S::equal_blocks; })
        return S::equal_blocks;
    else
        return false;
}();

/// Whether a schedule that folds nothing declares that its steps may be one pass.
template <class S>
[[nodiscard]] constexpr bool may_be_one_pass([[maybe_unused]] const S& s) noexcept {
    if constexpr (requires { s.one_pass; })
        return s.one_pass;
    else
        return false;
}

/// Whether a schedule declares that it folds only the operands themselves, each result in a single step.
template <class S>
[[nodiscard]] constexpr bool folds_once([[maybe_unused]] const S& s) noexcept {
    if constexpr (requires { s.folds_once; })
        return s.folds_once;
    else
        return false;
}

/// The schedule of the algorithm `a` in this setting. If the algorithm has no parameters, the setting alone makes it.
template <schedule S, class Algorithm>
[[nodiscard]] constexpr S make_schedule(const setting& where, [[maybe_unused]] const Algorithm& a) noexcept {
    if constexpr (std::constructible_from<S, const setting&, const Algorithm&>)
        return S(where, a);
    else
        return S(where);
}

}  // namespace allfold
