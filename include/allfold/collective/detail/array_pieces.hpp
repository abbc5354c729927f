// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "allfold/data/block_cyclic.hpp"

/// @file
/// How an array that lies on several ranks is folded in parts, of which every rank knows where they are: pieces, which
/// the rank folds that holds them, and sections of pieces, one for each rank at most.
///
///     elements   0 . . . . . . 7 8 . . . . . . 15 16 . .
///     pieces     └──┘└┘└┘└──┘ └┘ └──┘└┘ ...
///     sections   └─────────────┘ └────────────────┘ └──┘

namespace allfold::detail {

/// Elements of an array that follow each other, all of them on one rank.
struct piece {
    std::size_t first;
    std::size_t length;
};

class array_pieces {
  public:
    /// `in_one_tree`: pieces are nodes of a tree that depends on nothing but the number of elements: its node of
    /// level k and number i has the elements from i·2^k on, 2^k of them or as many as there are, and joins two nodes of
    /// the level below. Otherwise they are the blocks of the array.
    array_pieces(const block_cyclic& array, int ranks, bool in_one_tree)
        : array_(array), ranks_(ranks), in_one_tree_(in_one_tree) {
        if (array.count == 0) return;
        const auto size = static_cast<std::size_t>(ranks);
        const std::size_t shift = array.offset % array.block;
        const std::size_t blocks = (shift + array.count - 1) / array.block + 1;
        if (!in_one_tree) {
            shift_ = shift;
            chunk_ = array.block * ((blocks + size - 1) / size);
        } else {
            chunk_ = std::bit_ceil(blocks == 1 ? array.count : (array.count + size - 1) / size);
        }
        first_rank_ = array.owner(0, ranks);
        sections_ = section_of(array.count - 1) + 1;
        // Where no rank has two blocks, sections are blocks.
        stays_ = blocks <= size && (!in_one_tree || blocks == 1 || (shift == 0 && chunk_ == array.block));
    }

    [[nodiscard]] const block_cyclic& array() const noexcept { return array_; }
    [[nodiscard]] bool in_one_tree() const noexcept { return in_one_tree_; }
    [[nodiscard]] std::size_t chunk() const noexcept { return chunk_; }
    /// Whether every piece is in a section of the rank that holds it.
    [[nodiscard]] bool stays() const noexcept { return stays_; }

    [[nodiscard]] std::size_t sections() const noexcept { return sections_; }
    [[nodiscard]] std::size_t section_of(std::size_t element) const noexcept { return (element + shift_) / chunk_; }
    [[nodiscard]] piece section(std::size_t number) const noexcept {
        const std::size_t first = number == 0 ? 0 : number * chunk_ - shift_;
        return {first, std::min(array_.count - first, number == 0 ? chunk_ - shift_ : chunk_)};
    }
    /// Who folds the pieces of a section.
    [[nodiscard]] int folder_of(std::size_t section) const noexcept {
        const auto size = static_cast<std::size_t>(ranks_);
        return static_cast<int>((static_cast<std::size_t>(first_rank_) + section) % size);
    }
    /// The section of a rank, if it has one.
    [[nodiscard]] std::optional<std::size_t> section_of_rank(int rank) const noexcept {
        const auto number = static_cast<std::size_t>((rank - first_rank_ + ranks_) % ranks_);
        return number < sections_ ? std::optional(number) : std::nullopt;
    }

    /// Calls visit(piece) for those that a rank holds, in their order.
    template <class Visit>
    void for_each_held(int rank, Visit visit) const {
        if (array_.extent(rank, ranks_) == 0) return;
        const auto others = static_cast<std::size_t>(ranks_ - 1);  // whose blocks come first
        std::size_t first = array_.global_index(rank, 0, ranks_), length = rest_of_block(first);
        while (true) {
            cut(first, length, visit);
            const std::size_t rest = array_.count - first - length;
            if (rest == 0 || (rest - 1) / array_.block < others) return;
            first += length + others * array_.block;
            length = std::min(array_.block, array_.count - first);
        }
    }
    /// Calls visit(piece, who holds it) for those of a section, in their order.
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
    [[nodiscard]] std::size_t rest_of_block(std::size_t element) const noexcept {
        return std::min(array_.block - (array_.offset + element) % array_.block, array_.count - element);
    }
    /// Cuts a stretch of one block into pieces.
    template <class Visit>
    void cut(std::size_t first, std::size_t length, Visit visit) const {
        const std::size_t end = first + length;
        if (!in_one_tree_) {
            visit(piece{first, length});
        } else {
            for (std::size_t at = first; at < end;) {
                // The largest node that begins here, if it is all there.
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
    bool in_one_tree_;
    bool stays_ = true;
    int first_rank_ = 0;
    std::size_t shift_ = 0;  // where the first element stands in the first section
    std::size_t chunk_ = 1;  // positions of a section
    std::size_t sections_ = 0;
};

/// Where a node of so many leaves is cut in two.
[[nodiscard]] constexpr std::size_t cut_of_node(std::size_t leaves) noexcept { return std::bit_ceil(leaves) / 2; }

/// Folds of values: from left to right, or as the tree of a `array_pieces`. `join(a, b)` is a ∘ b.
template <class State, class Join>
class folding {
  public:
    explicit folding(Join join) : join_(std::move(join)) {}

    /// Of leaf(first), ..., leaf(first + count - 1), which are one or more.
    template <class Leaf>
    [[nodiscard]] State in_row(const Leaf& leaf, std::size_t first, std::size_t count) const {
        State all = leaf(first);
        for (std::size_t i = 1; i < count; ++i) all = join_(all, leaf(first + i));
        return all;
    }
    template <class Leaf>
    [[nodiscard]] State in_tree(const Leaf& leaf, std::size_t first, std::size_t count) const {
        if (count == eight) return node<eight>(leaf, first);
        if (count == 1) return leaf(first);
        const std::size_t left = cut_of_node(count);
        return join_(in_tree(leaf, first, left), in_tree(leaf, first + left, count - left));
    }
    /// Of nodes that together are a larger one: node i has the leaves that `of[i]` says and the value `values[i]`.
    [[nodiscard]] State of_nodes(std::span<const piece> of, const State* values, const piece& whole) const {
        if (of.size() == 1) return *values;
        const auto [left, right] = halves(whole);
        const std::size_t before = count_before(of, right.first);
        return join_(of_nodes(of.first(before), values, left), of_nodes(of.subspan(before), values + before, right));
    }

    /// Calls store(leaf number, prefix): the fold of `before` (null: nothing) and the leaves up to that one, with it
    /// where they are inclusive; null where that is nothing. The tree's also return the fold of the leaves alone.
    template <bool Inclusive, class Leaf, class Store>
    void prefixes_in_row(const Leaf& leaf, std::size_t first, std::size_t count, const State* before,
                         const Store& store) const {
        std::optional<State> sum;
        if (before != nullptr) sum.emplace(*before);
        for (std::size_t i = first; i < first + count; ++i) {
            State x = leaf(i);
            if constexpr (!Inclusive) store(i, sum ? &*sum : nullptr);
            if (sum)
                *sum = join_(*sum, x);
            else
                sum.emplace(std::move(x));
            if constexpr (Inclusive) store(i, &*sum);
        }
    }
    template <bool Inclusive, class Leaf, class Store>
    State prefixes_in_tree(const Leaf& leaf, std::size_t first, std::size_t count, const State* before,
                           const Store& store) const {
        if (count == eight) return prefixes_of<eight, Inclusive>(leaf, first, before, store);
        if (count > 1) {
            const std::size_t half = cut_of_node(count);
            State left = prefixes_in_tree<Inclusive>(leaf, first, half, before, store);
            const State below = before != nullptr ? join_(*before, left) : left;
            return join_(left, prefixes_in_tree<Inclusive>(leaf, first + half, count - half, &below, store));
        }
        return prefixes_of<1, Inclusive>(leaf, first, before, store);
    }
    /// The same of nodes: calls visit(prefix) for each in its order.
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
        return join_(low, prefixes_of_nodes(of.subspan(cut), values + cut, right, &below, visit));
    }
    /// What stands before leaf `end` in the tree; there is something.
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
    static constexpr std::size_t eight = 8;  // leaves that the compiler sees at once

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
            return join_(left, prefixes_of<Count / 2, Inclusive>(leaf, first + Count / 2, &below, store));
        } else {
            State x = leaf(first);
            if (!Inclusive || before == nullptr) {
                store(first, Inclusive ? &x : before);
            } else {
                const State prefix = join_(*before, x);
                store(first, &prefix);
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
