// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "allfold/data/block_cyclic.hpp"

/// @file
/// How an array distributed over several ranks is folded in parts, whose positions every rank knows: pieces, each
/// folded by the rank that holds it, and, unless every rank learns the folds of all pieces, sections of pieces, at most
/// one per rank.
///
///     elements   0 . . . . . . 7 8 . . . . . . 15 16 . .
///     pieces     └──┘└┘└┘└──┘ └┘ └──┘└┘ ...
///     sections   └─────────────┘ └────────────────┘ └──┘

namespace allfold::detail {

/// Consecutive elements of an array, all on one rank.
struct piece {
    std::size_t first;
    std::size_t length;
};

/// What forms a piece.
enum class pieces_of {
    rank,   ///< everything that a rank holds, of an array that is folded in any order
    block,  ///< a block
    /// A node of a tree that depends only on the number of elements: node i of level k covers the elements from i·2^k
    /// on, 2^k of them or as many as there are, and joins two nodes of the level below.
    tree
};

struct how_folded {
    pieces_of what;
    bool in_any_order;  ///< of the elements of a piece
};

class array_pieces {
  public:
    array_pieces(const block_cyclic& array, int ranks, const how_folded& how)
        : array_(array), ranks_(ranks), what_(how.what), in_any_order_(how.in_any_order) {
        if (array.count == 0) return;
        const auto size = static_cast<std::size_t>(ranks);
        const std::size_t shift = shift_of_block_ = quotient_and_rest(array.offset, array.block).rest;
        const std::size_t blocks = blocks_ = quotient_and_rest(shift + array.count - 1, array.block).quotient + 1;
        const std::size_t turns = quotient_and_rest(blocks + size - 1, size).quotient;
        std::size_t most_of_block = 1;
        if (what_ != pieces_of::tree) {
            shift_ = shift;
            chunk_ = array.block * turns;
        } else {
            chunk_ = std::bit_ceil(blocks == 1 ? array.count : (array.count + size - 1) / size);
            const bool are_nodes = shift == 0 && std::has_single_bit(array.block) && array.block <= chunk_;
            if (blocks > 1 && !are_nodes) most_of_block = max_nodes_in(std::min(array.block, array.count));
        }
        first_rank_ = array.owner(0, ranks);
        sections_ = section_of(array.count - 1) + 1;
        max_held_ = what_ == pieces_of::rank ? 1 : turns * most_of_block;
        const std::size_t further_ranks = size - std::min(size, all_pieces_ranks);
        goes_to_all_ = what_ == pieces_of::rank || blocks * most_of_block <= std::max(size, all_pieces_limit) ||
                       array.block >= hidden_elements_per_rank * further_ranks * most_of_block;
    }

    [[nodiscard]] const block_cyclic& array() const noexcept { return array_; }
    [[nodiscard]] bool in_any_order() const noexcept { return in_any_order_; }
    [[nodiscard]] bool in_one_tree() const noexcept { return what_ == pieces_of::tree; }
    [[nodiscard]] std::size_t chunk() const noexcept { return chunk_; }
    /// An upper bound on the number of pieces of any rank.
    [[nodiscard]] std::size_t max_held() const noexcept { return max_held_; }
    /// Whether every rank learns the folds of all pieces: this takes one round, but each rank goes through all of them.
    [[nodiscard]] bool goes_to_all() const noexcept { return goes_to_all_; }

    [[nodiscard]] std::size_t sections() const noexcept { return sections_; }
    [[nodiscard]] std::size_t section_of(std::size_t element) const noexcept {
        return quotient_and_rest(element + shift_, chunk_).quotient;
    }
    [[nodiscard]] piece section(std::size_t number) const noexcept {
        const std::size_t first = number == 0 ? 0 : number * chunk_ - shift_;
        return {first, std::min(array_.count - first, number == 0 ? chunk_ - shift_ : chunk_)};
    }
    /// The rank that folds the pieces of a section.
    [[nodiscard]] int folder_of(std::size_t section) const noexcept {
        const auto size = static_cast<std::size_t>(ranks_);
        return static_cast<int>(quotient_and_rest(static_cast<std::size_t>(first_rank_) + section, size).rest);
    }
    /// The section that a rank folds, if any.
    [[nodiscard]] std::optional<std::size_t> section_of_rank(int rank) const noexcept {
        const std::size_t number = turn_of(rank);
        return number < sections_ ? std::optional(number) : std::nullopt;
    }

    [[nodiscard]] std::size_t held_by(int rank) const {
        if (what_ == pieces_of::block)
            return quotient_and_rest(blocks_ + index(ranks_ - 1) - turn_of(rank), index(ranks_)).quotient;
        std::size_t count = 0;
        for_each_held(rank, [&](const piece&) { ++count; });
        return count;
    }
    /// Calls visit(piece) for each piece that a rank holds, in order.
    template <class Visit>
    void for_each_held(int rank, Visit visit) const {
        if (what_ == pieces_of::rank) {
            const std::size_t held = array_.extent(rank, ranks_);
            if (held > 0) visit(piece{array_.global_index(rank, 0, ranks_), held});
            return;
        }
        const std::size_t turn = turn_of(rank);
        if (turn >= blocks_) return;
        // The number of elements that other ranks have between two blocks of this rank, capped at the size of the
        // array.
        const std::size_t others = index(ranks_ - 1), all = array_.count;
        const bool is_capped = others > 0 && array_.block > quotient_and_rest(all, others).quotient;
        const std::size_t between = is_capped ? all : others * array_.block;
        std::size_t first = turn == 0 ? 0 : turn * array_.block - shift_of_block_;
        std::size_t length = std::min(array_.block - (turn == 0 ? shift_of_block_ : 0), all - first);
        while (true) {
            cut(first, length, visit);
            const std::size_t rest = all - first - length;
            if (rest <= between) return;
            first += length + between;
            length = std::min(array_.block, all - first);
        }
    }
    /// Calls visit(piece, holding rank) for each piece, in order.
    template <class Visit>
    void for_each(Visit visit) const {
        if (what_ == pieces_of::rank)
            for (int r = 0; r < ranks_; ++r) for_each_held(r, [&](const piece& p) { visit(p, r); });
        else
            for (std::size_t number = 0; number < sections_; ++number) for_each_in(number, visit);
    }
    /// Whether each piece is a block: ranks hold them in turn.
    [[nodiscard]] bool in_turns() const noexcept { return what_ == pieces_of::block; }
    /// Calls visit(turn, holding rank) for each block, in order: it is number `turn` of those that the rank holds.
    template <class Visit>
    void for_each_in_turns(Visit visit) const {
        std::size_t left = blocks_;
        for (std::size_t turn = 0; left > 0; ++turn) {
            const std::size_t end = std::min(left, index(ranks_));
            for (int i = 0, holder = first_rank_; index(i) < end; ++i) {
                visit(turn, holder);
                holder = holder + 1 < ranks_ ? holder + 1 : 0;
            }
            left -= end;
        }
    }
    /// The same for the pieces of a section.
    template <class Visit>
    void for_each_in(std::size_t number, Visit visit) const {
        const piece whole = section(number);
        const std::size_t end = whole.first + whole.length;
        int holder = array_.owner(whole.first, ranks_);
        for (std::size_t first = whole.first, length = rest_of_block(first); first < end;) {
            length = std::min(length, end - first);
            cut(first, length, [&](const piece& p) { visit(p, holder); });
            first += length;
            length = array_.block;
            holder = holder + 1 < ranks_ ? holder + 1 : 0;
        }
    }

  private:
    static constexpr std::size_t all_pieces_ranks = 2;  // with up to this many ranks, each receives all pieces anyway
    // The folds of up to this many pieces are sent to all ranks, whatever the length of the pieces: 256 blocks of 64
    // floats on 4 ranks, two per core, took half the time that they took in sections.
    static constexpr std::size_t all_pieces_limit = 512;
    // With this many elements per block for each further rank, the cost of every rank going through all blocks is
    // hidden. 4096 blocks of 64 floats on 4 ranks, which are too short, took 1.4 times as long this way as in sections.
    static constexpr std::size_t hidden_elements_per_rank = 48;

    [[nodiscard]] static std::size_t index(int rank) noexcept { return static_cast<std::size_t>(rank); }
    /// The most nodes of up to a chunk in `length` elements: nodes grow up to the size of a chunk, and shrink towards
    /// the end.
    [[nodiscard]] std::size_t max_nodes_in(std::size_t length) const noexcept {
        return length / chunk_ + 2 * static_cast<std::size_t>(std::bit_width(std::min(length, chunk_)));
    }
    /// How many ranks have a block before this rank's first block.
    [[nodiscard]] std::size_t turn_of(int rank) const noexcept {
        return index(rank - first_rank_ + (rank < first_rank_ ? ranks_ : 0));
    }
    [[nodiscard]] std::size_t rest_of_block(std::size_t element) const noexcept {
        return std::min(array_.block - quotient_and_rest(array_.offset + element, array_.block).rest,
                        array_.count - element);
    }
    /// Cuts a range within one block into pieces.
    template <class Visit>
    void cut(std::size_t first, std::size_t length, Visit visit) const {
        const std::size_t end = first + length;
        if (!in_one_tree()) {
            visit(piece{first, length});
        } else {
            for (std::size_t at = first; at < end;) {
                // The largest node that begins here and is complete.
                std::size_t node = at == 0 ? chunk_ : std::min(chunk_, at & (~at + 1));
                if (end != array_.count) node = std::min(node, std::bit_floor(end - at));
                const std::size_t has = std::min(node, end - at);
                visit(piece{at, has});
                at += has;
            }
        }
    }

    block_cyclic array_;
    int ranks_;
    pieces_of what_;
    bool in_any_order_;
    bool goes_to_all_ = true;
    int first_rank_ = 0;
    std::size_t blocks_ = 0;
    std::size_t shift_of_block_ = 0;  // position of the first element in its block
    std::size_t shift_ = 0;           // the same in the first section
    std::size_t chunk_ = 1;           // positions per section
    std::size_t sections_ = 0;
    std::size_t max_held_ = 0;
};

/// Where a node with this many leaves is split in two.
[[nodiscard]] constexpr std::size_t cut_of_node(std::size_t leaves) noexcept { return std::bit_ceil(leaves) / 2; }

/// Folds values, either from left to right or in the tree of an `array_pieces`. `join(a, b)` is a ∘ b.
template <class State, class Join>
class folding {
  public:
    explicit folding(Join join) : join_(std::move(join)) {}

    /// The fold of leaf(first), ..., leaf(first + count - 1); count is at least 1.
    template <class Leaf>
    [[nodiscard]] State in_row(const Leaf& leaf, std::size_t first, std::size_t count) const {
        State all = leaf(first);
        for (std::size_t i = 1; i < count; ++i) all = join_(all, leaf(first + i));
        return all;
    }
    /// The same for a commutative operator.
    template <class Leaf>
    [[nodiscard]] State in_any_order(const Leaf& leaf, std::size_t first, std::size_t count) const {
        if constexpr (std::is_arithmetic_v<State>) {
            if (count >= 16 * many_lanes) return in_lanes<many_lanes>(leaf, first, count);
            if (count >= 2 * unrolled_leaves) return in_lanes<unrolled_leaves>(leaf, first, count);
        }
        return in_row(leaf, first, count);
    }
    template <class Leaf>
    [[nodiscard]] State in_tree(const Leaf& leaf, std::size_t first, std::size_t count) const {
        if (count == unrolled_leaves) return node<unrolled_leaves>(leaf, first);
        if (count == 1) return leaf(first);
        const std::size_t left = cut_of_node(count);
        return join_(in_tree(leaf, first, left), in_tree(leaf, first + left, count - left));
    }
    /// The fold of nodes that together form a larger one: node i covers the leaves `of[i]` and has the value
    /// `values[i]`.
    [[nodiscard]] State of_nodes(std::span<const piece> of, const State* values, const piece& whole) const {
        if (of.size() == 1) return *values;
        const auto [left, right] = halves(whole);
        const std::size_t before = count_before(of, right.first);
        return join_(of_nodes(of.first(before), values, left), of_nodes(of.subspan(before), values + before, right));
    }

    /// Calls store(leaf number, prefix) for each leaf. The prefix is the fold of `before` (if not null) and the
    /// preceding leaves, including the leaf itself if Inclusive; it is null if that is nothing. The tree variants also
    /// return the fold of the leaves alone.
    template <bool Inclusive, class Leaf, class Store>
    void prefixes_in_row(const Leaf& leaf, std::size_t first, std::size_t count, const State* before,
                         const Store& store) const {
        const std::size_t end = first + count;
        std::optional<State> begun;
        if (before != nullptr) {
            begun.emplace(*before);
        } else {
            begun.emplace(leaf(first));
            store(first, Inclusive ? std::addressof(*begun) : nullptr);
            ++first;
        }
        State sum = std::move(*begun);
        const auto next = [&](std::size_t i) {
            State joined = join_(sum, leaf(i));  // before the leaf is overwritten, if the scan is in place
            if constexpr (!Inclusive) hand_out(store, i, sum);
            sum = std::move(joined);
            if constexpr (Inclusive) hand_out(store, i, sum);
        };
        for (; first + unrolled_leaves <= end; first += unrolled_leaves)
            for (std::size_t i = 0; i < unrolled_leaves; ++i) next(first + i);
        for (; first < end; ++first) next(first);
    }
    /// The same for `Count` rows of `length` leaves each, one after another, which advance together: calls store(row,
    /// leaf number in the row, prefix). befores[i] is the fold before row i.
    template <bool Inclusive, std::size_t Count, class Leaf, class Store>
    void prefixes_abreast(const Leaf& leaf, std::size_t first, std::size_t length, const State* befores,
                          const Store& store) const {
        std::array<State, Count> sums;
        std::copy_n(befores, Count, sums.begin());
        for (std::size_t at = 0; at < length; ++at) {
            for (std::size_t i = 0; i < Count; ++i) {
                State next = join_(sums[i], leaf(first + i * length + at));
                const State& prefix = Inclusive ? next : sums[i];
                store(i, at, std::addressof(prefix));
                sums[i] = next;
            }
        }
    }
    template <bool Inclusive, class Leaf, class Store>
    State prefixes_in_tree(const Leaf& leaf, std::size_t first, std::size_t count, const State* before,
                           const Store& store) const {
        if (count == unrolled_leaves) return prefixes_of<unrolled_leaves, Inclusive>(leaf, first, before, store);
        if (count > 1) {
            const std::size_t half = cut_of_node(count);
            State left = prefixes_in_tree<Inclusive>(leaf, first, half, before, store);
            const State below = before != nullptr ? join_(*before, left) : left;
            return join_(left,
                         prefixes_in_tree<Inclusive>(leaf, first + half, count - half, std::addressof(below), store));
        }
        return prefixes_of<1, Inclusive>(leaf, first, before, store);
    }
    /// The same for nodes: calls visit(prefix) for each, in order.
    template <class Visit>
    State prefixes_of_nodes(std::span<const piece> of, const State* values, const piece& whole, const State* before,
                            const Visit& visit) const {
        if (of.size() == 1) {
            visit(before);
            return *values;
        }
        const auto [left, right] = halves(whole);
        const std::size_t cut = count_before(of, right.first);
        State low = prefixes_of_nodes(of.first(cut), values, left, before, visit);
        const State below = before != nullptr ? join_(*before, low) : low;
        return join_(low, prefixes_of_nodes(of.subspan(cut), values + cut, right, std::addressof(below), visit));
    }
    /// The fold of everything before leaf `end`, as bracketed in the tree; `end` must not be 0.
    template <class Leaf>
    [[nodiscard]] State before_in_tree(const Leaf& leaf, std::size_t end) const {
        std::size_t node = std::bit_floor(end), at = node;
        State all = in_tree(leaf, 0, node);
        while (at < end) {
            node = std::bit_floor(end - at);
            all = join_(all, in_tree(leaf, at, node));
            at += node;
        }
        return all;
    }

  private:
    static constexpr std::size_t unrolled_leaves = 8;  // leaves in one unrolled subtree

    static constexpr std::size_t many_lanes = 64;

    /// Passes a copy of a prefix, so that the original can stay in a register.
    template <class Store>
    static void hand_out(const Store& store, std::size_t leaf, const State& prefix) {
        if constexpr (std::is_trivially_copyable_v<State>) {
            const State copy = prefix;
            store(leaf, std::addressof(copy));
        } else {
            store(leaf, std::addressof(prefix));
        }
    }
    /// Folds in vector lanes, so that a fold need not wait for the previous one.
    template <std::size_t Lanes, class Leaf>
    [[nodiscard]] State in_lanes(const Leaf& leaf, std::size_t first, std::size_t count) const {
        std::array<State, Lanes> all;
        for (std::size_t s = 0; s < Lanes; ++s) all[s] = leaf(first + s);
        std::size_t i = Lanes;
        for (; i + Lanes <= count; i += Lanes)
            for (std::size_t s = 0; s < Lanes; ++s) all[s] = join_(all[s], leaf(first + i + s));
        for (; i < count; ++i) all[0] = join_(all[0], leaf(first + i));
        for (std::size_t half = Lanes / 2; half > 0; half /= 2)
            for (std::size_t s = 0; s < half; ++s) all[s] = join_(all[s], all[s + half]);
        return all[0];
    }
    template <std::size_t Count, class Leaf>
    [[nodiscard]] State node(const Leaf& leaf, std::size_t first) const {
        if constexpr (Count == 1)
            return leaf(first);
        else
            return join_(node<Count / 2>(leaf, first), node<Count / 2>(leaf, first + Count / 2));
    }
    template <std::size_t Count, bool Inclusive, class Leaf, class Store>
    State prefixes_of(const Leaf& leaf, std::size_t first, const State* before, const Store& store) const {
        if constexpr (Count > 1) {
            State left = prefixes_of<Count / 2, Inclusive>(leaf, first, before, store);
            const State below = before != nullptr ? join_(*before, left) : left;
            return join_(left,
                         prefixes_of<Count / 2, Inclusive>(leaf, first + Count / 2, std::addressof(below), store));
        } else {
            State x = leaf(first);
            if (!Inclusive || before == nullptr) {
                store(first, Inclusive ? std::addressof(x) : before);
            } else {
                const State prefix = join_(*before, x);
                store(first, std::addressof(prefix));
            }
            return x;
        }
    }
    [[nodiscard]] static std::pair<piece, piece> halves(const piece& whole) noexcept {
        const std::size_t left = cut_of_node(whole.length);
        return {{whole.first, left}, {whole.first + left, whole.length - left}};
    }
    [[nodiscard]] static std::size_t count_before(std::span<const piece> of, std::size_t element) noexcept {
        return static_cast<std::size_t>(std::ranges::lower_bound(of, element, {}, &piece::first) - of.begin());
    }

    Join join_;
};

}  // namespace allfold::detail
