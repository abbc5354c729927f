// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>

#include "allfold/schedule/block_set.hpp"
#include "allfold/schedule/contract.hpp"

/// @file
/// The vocabulary of schedules: who sends which blocks to whom in one round, and what becomes of what arrives.

namespace allfold {

/// The partners of a step: nobody, one rank, or several at once (a k-ported step).
class peers {
  public:
    enum class kind : std::uint8_t { none, one, everyone, lower, higher, range };

    constexpr peers() = default;
    [[nodiscard]] static constexpr peers one(int rank) noexcept { return {kind::one, rank}; }
    [[nodiscard]] static constexpr peers everyone() noexcept { return {kind::everyone, 0}; }  ///< all other ranks
    [[nodiscard]] static constexpr peers lower() noexcept { return {kind::lower, 0}; }        ///< all ranks below
    [[nodiscard]] static constexpr peers higher() noexcept { return {kind::higher, 0}; }      ///< all ranks above
    /// The ranks first, first + 1, ..., end - 1 but for the rank itself: a group.
    [[nodiscard]] static constexpr peers range(int first, int end) noexcept { return {kind::range, first, end}; }

    [[nodiscard]] constexpr kind which() const noexcept { return kind_; }
    /// How many partners rank `self` of `size` has.
    [[nodiscard]] constexpr int count(int self, int size) const noexcept {
        switch (kind_) {
            case kind::none: return 0;
            case kind::one: return 1;
            case kind::everyone: return size - 1;
            case kind::lower: return self;
            case kind::higher: return size - 1 - self;
            case kind::range: return std::max(0, end_ - rank_) - (spans(self) ? 1 : 0);
        }
        return 0;
    }
    /// How many of them are below `self`: where its own operand stands in an ordered fold.
    [[nodiscard]] constexpr int count_below(int self, int size) const noexcept {
        switch (kind_) {
            case kind::one: return rank_ < self ? 1 : 0;
            case kind::higher: return 0;
            case kind::range: return std::max(0, std::min(self, end_) - rank_);
            default: return std::min(self, count(self, size));
        }
    }
    /// The i-th partner of rank `self`, in rank order.
    [[nodiscard]] constexpr int at(int i, int self) const noexcept {
        switch (kind_) {
            case kind::one: return rank_;
            case kind::everyone: return i < self ? i : i + 1;
            case kind::higher: return self + 1 + i;
            case kind::range: return rank_ + i + (spans(self) && rank_ + i >= self ? 1 : 0);
            default: return i;
        }
    }
    /// Which of the partners of `self` that rank is: `at(index_of(rank, self), self) == rank`.
    [[nodiscard]] constexpr int index_of(int rank, int self) const noexcept {
        switch (kind_) {
            case kind::one: return 0;
            case kind::everyone: return rank < self ? rank : rank - 1;
            case kind::higher: return rank - self - 1;
            case kind::range: return rank - rank_ - (spans(self) && rank > self ? 1 : 0);
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
        }
        return false;
    }
    friend constexpr bool operator==(const peers&, const peers&) = default;

  private:
    constexpr peers(kind k, int rank, int end = 0) : kind_(k), rank_(rank), end_(end) {}
    [[nodiscard]] constexpr bool spans(int rank) const noexcept { return rank_ <= rank && rank < end_; }
    kind kind_ = kind::none;
    int rank_ = 0;  ///< of the one, or the first of a range
    int end_ = 0;   ///< of a range
};

/// Where a block's value lies at a rank. `input` is the caller's operand and never written; `result` is what the caller
/// gets; the scratch slots hold partial folds. A step never writes blocks in the slot from which it sends them: the
/// peer may still be reading. (Alternating between two slots is how an exchange of whole vectors satisfies that.)
enum class slot : std::uint8_t { input, result, scratch_a, scratch_b };

/// What becomes of received blocks. `mine` is this rank's value of the same block, in the step's slot `mine`.
enum class fold : std::uint8_t {
    store,          ///< into ← received
    left,           ///< into ← received ∘ mine
    right,          ///< into ← mine ∘ received
    in_rank_order,  ///< into ← received from the lower peers, mine, received from the higher ones, in rank order and
                    ///< bracketed as the canonical tree of that many operands
    peers_in_rank_order,  ///< the same without mine: into ← what the peers sent
};

/// The fold that keeps rank order when `self` receives from `peer`: what comes from below belongs on the left.
[[nodiscard]] constexpr fold side_of(int peer, int self) noexcept { return peer < self ? fold::left : fold::right; }

/// Which blocks a k-ported step exchanges with each of its peers.
enum class addressed : std::uint8_t {
    alike,     ///< the same blocks with every peer
    per_peer,  ///< with peer p the one block p: the block set is not looked at
};

/// Work inside a rank before a step sends: `into ← left` (copy), or `into ← left ∘ right`. A copy to send is read by
/// this step's messages and nothing else: where posting a message copies it anyway, `left` is sent instead.
struct local_work {
    enum class kind : std::uint8_t { none, copy, copy_to_send, fold };
    kind what = kind::none;
    slot left = slot::input;
    slot right = slot::input;
    slot into = slot::result;
    block_set blocks{};
};

/// Work of ranks whose input is part of the result: `blocks` of it are copied there.
[[nodiscard]] constexpr local_work keep_input(const block_set& blocks) noexcept {
    return {local_work::kind::copy, slot::input, slot::input, slot::result, blocks};
}

/// One round of one rank. Sending and receiving happen at the same time; a side without peers is left out.
/// Order within the step: first `local`, then send and receive together, then the fold.
struct step {
    local_work local{};

    peers to{};
    block_set send{};
    addressed sent = addressed::alike;
    slot source = slot::input;  ///< where the sent blocks lie

    peers from{};
    block_set receive{};
    addressed received = addressed::alike;
    fold how = fold::store;
    slot mine = slot::input;   ///< own operand of the fold
    slot into = slot::result;  ///< where the outcome goes

    /// The blocks that go to `peer`, and those that come from it.
    [[nodiscard]] constexpr block_set sent_to(int peer) const noexcept {
        return sent == addressed::per_peer ? block_set::one(peer) : send;
    }
    [[nodiscard]] constexpr block_set received_from(int peer) const noexcept {
        return received == addressed::per_peer ? block_set::one(peer) : receive;
    }
    [[nodiscard]] constexpr bool idle() const noexcept {
        return to.which() == peers::kind::none && from.which() == peers::kind::none &&
               local.what == local_work::kind::none;
    }
};

/// A schedule: a pure value that can be asked for any round of one rank at any time.
///
/// 1. `goal` is the collective that it performs, `keeps` the strongest order level that it gives.
/// 2. `scratch_slots` is how many scratch slots its steps use (0, 1 or 2).
/// 3. `in_place` says that it stays right when the result lies in the same memory as the input.
/// 4. `s.blocks()` is how many blocks the data is cut into: 1, or one for each rank, or 0 in a barrier, whose messages
///    carry nothing.
/// 5. `s.rounds()` is the number of steps, the same for every rank; `s[i]` is step i of this rank.
///
/// At P = 1 there are no rounds: the engine copies input to result itself.
/// Not required: `static constexpr bool supports(int size)`, for a schedule that does not exist for every P, and
/// `static constexpr bool grouped`, for one that knows which ranks share memory: see `grouped_schedule`.
/// What the compiler cannot see, namely that all this is true, is what `analysis/prove.hpp` proves.
template <class S>
concept schedule = std::copy_constructible<S> && requires(const S s, int round) {
    { S::goal } -> std::convertible_to<collective>;
    { S::keeps } -> std::convertible_to<order>;
    { S::scratch_slots } -> std::convertible_to<int>;
    { S::in_place } -> std::convertible_to<bool>;
    { s.rank() } -> std::same_as<int>;
    { s.size() } -> std::same_as<int>;
    { s.blocks() } -> std::same_as<int>;
    { s.rounds() } -> std::same_as<int>;
    { s[round] } -> std::same_as<step>;
};

/// A schedule of a hierarchy, where each `group` consecutive ranks share memory: it says `static constexpr bool grouped
/// = true`, and is made of the group too, as the last argument. The number of ranks is a multiple of the group.
template <class S>
concept grouped_schedule = schedule<S> && requires { requires S::grouped; };

/// A schedule of a collective with a root: it is made of rank, size and root, the others of rank and size.
template <class S>
concept rooted_schedule = (schedule<S> && !grouped_schedule<S> && std::constructible_from<S, int, int, int>) ||
                          (grouped_schedule<S> && std::constructible_from<S, int, int, int, int>);

/// Whether `S` exists for this many ranks. Schedules that are not grouped do not look at the group.
template <schedule S>
[[nodiscard]] constexpr bool supports(int size, [[maybe_unused]] int group = 1) noexcept {
    if constexpr (grouped_schedule<S>)
        if (group < 1 || size % group != 0) return false;
    if constexpr (requires { S::supports(size); })
        return S::supports(size);
    else
        return size > 0;
}

/// The schedule of one rank. Schedules without a root do not look at it, nor at the group those that are not grouped.
template <schedule S>
[[nodiscard]] constexpr S make_schedule(int rank, int size, [[maybe_unused]] int root = 0,
                                        [[maybe_unused]] int group = 1) noexcept {
    if constexpr (rooted_schedule<S> && grouped_schedule<S>)
        return S(rank, size, root, group);
    else if constexpr (rooted_schedule<S>)
        return S(rank, size, root);
    else if constexpr (grouped_schedule<S>)
        return S(rank, size, group);
    else
        return S(rank, size);
}

/// A schedule whose two steps are "everyone folds its own block of all inputs, then publishes it": where ranks share
/// memory the executor runs both as one pass that reads every input and writes every output once.
template <class S>
concept slice_owner_schedule = schedule<S> && requires { requires S::slice_owner; };

}  // namespace allfold
