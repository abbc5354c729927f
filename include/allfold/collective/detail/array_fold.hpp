// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/operator.hpp"
#include "allfold/collective/all_gather.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/all_to_all.hpp"
#include "allfold/collective/detail/array_pieces.hpp"
#include "allfold/collective/gather.hpp"
#include "allfold/data/block_cyclic.hpp"
#include "allfold/data/detail/heap_array.hpp"
#include "allfold/data/partition.hpp"
#include "allfold/error.hpp"

/// @file
/// Folds of arrays that lie on several ranks. Each rank folds its pieces of the array, sends each result to the rank in
/// whose section it is, which folds these, and everyone gets the fold of each section. For scans what stands before a
/// piece goes back to the rank that holds it.

namespace allfold::detail {

/// What one rank says of its part of a call, for all others to compare.
struct array_claim {
    block_cyclic source, target;
    std::uint64_t source_elements = 0, target_elements = 0;
    std::uint64_t types = 0;  ///< of the collective, the operator, elements and the order level
    std::uint64_t root = 0;
    std::uint64_t overlaps = 0;

    using words = std::array<std::uint64_t, 11>;
    [[nodiscard]] words in_words() const noexcept {
        return {source.block, source.offset, source.count, target.block,    target.offset,  target.count,
                types,        root,          overlaps,     source_elements, target_elements};
    }
    [[nodiscard]] static array_claim of(const std::uint64_t* w) noexcept {
        const auto n = [w](int i) { return static_cast<std::size_t>(w[i]); };
        return {{n(0), n(1), n(2)}, {n(3), n(4), n(5)}, w[9], w[10], w[6], w[7], w[8]};
    }
};

/// Throws where a rank says something else than rank 0, or holds as much as it should not.
inline void require_one_array(const arrangement_place& at, std::span<const array_claim> claims) {
    const array_claim& first = claims[0];
    for (int r = 0; const array_claim& each : claims) {
        if (each.types != first.types)
            at.reject(errc::mismatch, {"rank ", r,
                                       " calls another collective of distributed arrays than rank 0, or "
                                       "with another operator, type of elements or order level"});
        const auto compare = [&](const block_cyclic& own, const block_cyclic& other, const char* what) {
            if (own != other)
                at.reject(errc::mismatch,
                          {what, " of rank ", r, " is ", own.text(), ", but that of rank 0 is ", other.text()});
        };
        compare(each.source, first.source, "the source");
        compare(each.target, first.target, "the target");
        if (each.root != first.root)
            at.reject(errc::mismatch, {"rank ", r, " names root ", static_cast<std::int64_t>(each.root),
                                       ", but rank 0 root ", static_cast<std::int64_t>(first.root)});
        ++r;
    }
    first.source.check();
    first.target.check();
    if (first.source.count != first.target.count)
        at.reject(errc::mismatch, {"the source is ", first.source.text(), ", and the target ", first.target.text(),
                                   ": they must have as many elements"});
    if (const auto root = static_cast<std::int64_t>(first.root); root < 0 || root >= at.size)
        at.reject(errc::bad_rank, {"root ", root, " is not in [0, ", at.size, ")"});
    for (int r = 0; const array_claim& each : claims) {
        const auto compare = [&](const block_cyclic& array, std::uint64_t elements, const char* what) {
            if (const std::size_t needed = array.extent(r, at.size); elements != needed)
                at.reject(errc::mismatch, {"rank ", r, " has ", elements, " elements of the ", what, ", but ",
                                           array.text(), " on ", at.size, " ranks gives it ", needed});
        };
        compare(each.source, each.source_elements, "source");
        compare(each.target, each.target_elements, "target");
        if (each.overlaps != 0) at.reject(errc::overlap, {"source and target of rank ", r, " overlap in part"});
        ++r;
    }
}

/// Elements next to each other in memory that go to a rank, or come from it.
struct parcel {
    int rank;
    std::size_t first;
    std::size_t length;
};

/// Brings parcels in the order of their ranks; returns how many elements are of each.
[[nodiscard]] inline partition sort_by_rank(std::vector<parcel>& parcels, int ranks) {
    std::vector<std::size_t> sizes(static_cast<std::size_t>(ranks)), next(sizes.size() + 1);
    for (const parcel& each : parcels) {
        sizes[static_cast<std::size_t>(each.rank)] += each.length;
        ++next[static_cast<std::size_t>(each.rank) + 1];
    }
    std::partial_sum(next.begin(), next.end(), next.begin());
    std::vector<parcel> sorted(parcels.size());
    for (const parcel& each : parcels) sorted[next[static_cast<std::size_t>(each.rank)]++] = each;
    parcels.swap(sorted);
    return partition::sizes(sizes);
}

/// Whether they follow each other in memory.
[[nodiscard]] inline bool are_in_order(const std::vector<parcel>& parcels) noexcept {
    std::size_t end = 0;
    for (const parcel& each : parcels) {
        if (each.first != end) return false;
        end += each.length;
    }
    return true;
}

/// What a rank holds of one array, by who holds it in another one; both have the same elements.
[[nodiscard]] inline std::vector<parcel> parcels_between(const block_cyclic& held, const block_cyclic& other, int rank,
                                                         int ranks) {
    std::vector<parcel> made;
    for (std::size_t local = 0, end = held.extent(rank, ranks); local < end;) {
        const std::size_t i = held.global_index(rank, local, ranks);
        const auto rest = [i](const block_cyclic& a) { return a.block - (a.offset + i) % a.block; };
        const std::size_t length = std::min({rest(held), rest(other), end - local});
        made.push_back({other.owner(i, ranks), local, length});
        local += length;
    }
    return made;
}

/// How the ranks of one call fold arrays of `Value`. `Limit`: a deadline, or nothing.
template <class Comm, class Op, class Value, class... Limit>
class array_fold {
  public:
    using state = typename state_of<Op, Value>::type;

    array_fold(Comm& comm, const Op& op, const Limit&... limit) : comm_(comm), op_(op), limit_(limit...) {}

    /// Everyone's claims, compared. All ranks throw, or none does.
    void agree(const char* collective, const array_claim& claim) {
        const array_claim::words words = claim.in_words();
        heap_array<std::uint64_t> mine(words.size()), all(words.size() * size());
        std::ranges::copy(words, mine.begin());
        run_on_own_memory(
            comm_, [&] { limited(all_gather, std::span(mine.data(), mine.size()), std::span(all.data(), all.size())); },
            mine, all);
        std::vector<array_claim> claims;
        claims.reserve(size());
        for (std::size_t r = 0; r < size(); ++r) claims.push_back(array_claim::of(&all[r * mine.size()]));
        require_one_array({collective, comm_.rank(), comm_.size()}, claims);
    }

    /// What a rank holds of an array, as it is laid out in another way.
    [[nodiscard]] heap_array<Value> moved(const Value* from, const block_cyclic& source, const block_cyclic& target) {
        return exchange(from, parcels_between(source, target, comm_.rank(), comm_.size()),
                        parcels_between(target, source, comm_.rank(), comm_.size()));
    }

    /// The fold of an array that has elements, at one rank, or at all of them where `root` is negative; in any order.
    [[nodiscard]] std::optional<state> total(const Value* x, const block_cyclic& array, int root) {
        std::vector<std::size_t> has(size());
        for (int r = 0; r < comm_.size(); ++r) has[index(r)] = array.extent(r, comm_.size()) > 0 ? 1 : 0;
        heap_array<state> own(has[index(comm_.rank())]);
        if (own.size() > 0) own[0] = folds().in_row(lifting(x), 0, array.extent(comm_.rank(), comm_.size()));
        const heap_array<state> all = tops(own, partition::sizes(has), root);
        if (all.size() == 0) return std::nullopt;
        return folds().in_row([&](std::size_t i) { return all[i]; }, 0, all.size());
    }
    /// The same in the order of the array.
    [[nodiscard]] std::optional<state> total(const Value* x, const array_pieces& parts, int root) {
        section_values mine = fold_section(x, parts);
        const partition by_rank = sections_by_rank(parts);
        const heap_array<state> all = tops(mine.top, by_rank, root);
        if (all.size() == 0) return std::nullopt;
        const auto top = [&](std::size_t k) { return all[by_rank.offset(parts.folder_of(k))]; };
        return parts.in_one_tree() ? folds().in_tree(top, 0, parts.sections())
                                   : folds().in_row(top, 0, parts.sections());
    }

    /// Calls store(own element, its number in the array, prefix) as `folding` does.
    template <bool Inclusive, class Store>
    void prefixes(const Value* x, const array_pieces& parts, const Store& store) {
        section_values mine = fold_section(x, parts);
        const heap_array<state> before = starts(parts, mine);
        const auto leaf = lifting(x);
        std::size_t local = 0;
        for (std::size_t i = 0; const piece& p : mine.held) {
            const state* const below = p.first == 0 ? nullptr : &before[i];
            const auto keep = [&](std::size_t at, const state* prefix) { store(at, p.first + at - local, prefix); };
            if (parts.in_one_tree())
                folds().template prefixes_in_tree<Inclusive>(leaf, local, p.length, below, keep);
            else
                folds().template prefixes_in_row<Inclusive>(leaf, local, p.length, below, keep);
            local += p.length;
            ++i;
        }
    }

  private:
    /// The pieces that this rank holds, and those of the section that it folds.
    struct section_values {
        std::vector<piece> held, nodes;
        std::vector<int> holders;  // of the nodes
        heap_array<state> values;  // of the nodes
        piece whole{0, 0};
        heap_array<state> top;  // of the whole section, if there is one
    };

    [[nodiscard]] static std::size_t index(int rank) noexcept { return static_cast<std::size_t>(rank); }
    [[nodiscard]] std::size_t size() const noexcept { return index(comm_.size()); }
    [[nodiscard]] auto lifting(const Value* x) const {
        return [this, x](std::size_t i) { return static_cast<state>(lift_part(op_, x[i])); };
    }
    [[nodiscard]] auto folds() const {
        const auto join = [this](const state& a, const state& b) { return static_cast<state>(op_(a, b)); };
        return folding<state, decltype(join)>(join);
    }
    template <class Collective, class... Arguments>
    void limited(const Collective& run, Arguments&&... arguments) {
        std::apply([&](const auto&... limit) { run(comm_, std::forward<Arguments>(arguments)..., limit...); }, limit_);
    }

    /// Sends parcels of `from`; returns what arrives, where the parcels received say.
    template <class T>
    [[nodiscard]] heap_array<T> exchange(const T* from, std::vector<parcel> sent, std::vector<parcel> received) {
        const partition going = sort_by_rank(sent, comm_.size()), coming = sort_by_rank(received, comm_.size());
        const bool is_packed = are_in_order(sent);
        heap_array<T> packed(is_packed ? 0 : going.total()), arrived(coming.total());
        if (!is_packed)
            for_each_packed(sent, going, [&](const parcel& p, std::size_t at) {
                std::copy_n(from + p.first, p.length, packed.data() + at);
            });
        const std::span<const T> out(is_packed ? from : packed.data(), going.total());
        const std::span<T> in(arrived.data(), arrived.size());
        run_on_own_memory(
            comm_, [&] { limited(all_to_all, out, in, input_blocks{going}, output_blocks{coming}); }, packed, arrived);
        if (are_in_order(received)) return arrived;
        heap_array<T> placed(coming.total());
        for_each_packed(received, coming, [&](const parcel& p, std::size_t at) {
            std::move(in.data() + at, in.data() + at + p.length, placed.data() + p.first);
        });
        return placed;
    }
    /// Calls visit(parcel, where it stands) for parcels in the order of their ranks.
    template <class Visit>
    static void for_each_packed(const std::vector<parcel>& parcels, const partition& blocks, Visit visit) {
        int rank = -1;
        std::size_t at = 0;
        for (const parcel& each : parcels) {
            if (each.rank != rank) at = blocks.offset(rank = each.rank);
            visit(each, at);
            at += each.length;
        }
    }

    /// Where each value of a rank's pieces goes, and where each value of a section's comes from.
    [[nodiscard]] static std::vector<parcel> to_folders(const array_pieces& parts, const section_values& mine) {
        std::vector<parcel> made;
        for (const piece& p : mine.held) made.push_back({parts.folder_of(parts.section_of(p.first)), made.size(), 1});
        return made;
    }
    [[nodiscard]] static std::vector<parcel> to_holders(const section_values& mine) {
        std::vector<parcel> made;
        for (const int holder : mine.holders) made.push_back({holder, made.size(), 1});
        return made;
    }

    [[nodiscard]] section_values fold_section(const Value* x, const array_pieces& parts) {
        section_values mine;
        parts.for_each_held(comm_.rank(), [&](const piece& p) { mine.held.push_back(p); });
        heap_array<state> values(mine.held.size());
        const auto leaf = lifting(x);
        std::size_t local = 0;
        for (std::size_t i = 0; const piece& p : mine.held) {
            values[i++] =
                parts.in_one_tree() ? folds().in_tree(leaf, local, p.length) : folds().in_row(leaf, local, p.length);
            local += p.length;
        }
        const auto own = parts.section_of_rank(comm_.rank());
        if (own) {
            mine.whole = parts.section(*own);
            parts.for_each_in(*own, [&](const piece& p, int holder) {
                mine.nodes.push_back(p);
                mine.holders.push_back(holder);
            });
        }
        if (parts.stays())
            mine.values = std::move(values);
        else
            run_on_own_memory(
                comm_, [&] { mine.values = exchange(values.data(), to_folders(parts, mine), to_holders(mine)); },
                values);
        if (!own) return mine;
        mine.top = heap_array<state>(1);
        const state* const nodes = mine.values.data();
        if (parts.in_one_tree())
            mine.top[0] = folds().of_nodes(mine.nodes, nodes, mine.whole);
        else
            mine.top[0] = folds().in_row([nodes](std::size_t i) { return nodes[i]; }, 0, mine.nodes.size());
        return mine;
    }

    [[nodiscard]] partition sections_by_rank(const array_pieces& parts) const {
        std::vector<std::size_t> has(size());
        for (int r = 0; r < comm_.size(); ++r) has[index(r)] = parts.section_of_rank(r) ? 1 : 0;
        return partition::sizes(has);
    }
    /// The values of all ranks that have one, in rank order: at the root, or at all ranks where that is negative.
    [[nodiscard]] heap_array<state> tops(heap_array<state>& own, const partition& by_rank, int root) {
        heap_array<state> all(root < 0 || root == comm_.rank() ? by_rank.total() : 0);
        const std::span<const state> mine(own.data(), own.size());
        const std::span<state> out(all.data(), all.size());
        const auto call = [&] {
            if (root < 0)
                limited(all_gather, mine, out, by_rank);
            else
                limited(gather, mine, out, by_rank, allfold::root{root});
        };
        run_on_own_memory(comm_, call, own, all);
        return all;
    }

    /// What stands before each piece that this rank holds; something else before the first of the array.
    [[nodiscard]] heap_array<state> starts(const array_pieces& parts, section_values& mine) {
        const partition by_rank = sections_by_rank(parts);
        const heap_array<state> all = tops(mine.top, by_rank, -1);
        heap_array<state> before(mine.nodes.size());
        if (const auto own = parts.section_of_rank(comm_.rank())) {
            const auto top = [&](std::size_t k) { return all[by_rank.offset(parts.folder_of(k))]; };
            std::optional<state> below;
            if (*own > 0)
                below = parts.in_one_tree() ? folds().before_in_tree(top, *own) : folds().in_row(top, 0, *own);
            set_starts(parts, mine, below ? &*below : nullptr, before);
        }
        if (parts.stays()) return before;
        heap_array<state> back;
        run_on_own_memory(
            comm_, [&] { back = exchange(before.data(), to_holders(mine), to_folders(parts, mine)); }, before);
        return back;
    }
    void set_starts(const array_pieces& parts, const section_values& mine, const state* below,
                    const heap_array<state>& before) const {
        const state* const nodes = mine.values.data();
        const auto set = [&](std::size_t i, const state* prefix) {
            before[i] = prefix != nullptr ? *prefix : nodes[i];
        };
        std::size_t i = 0;
        if (parts.in_one_tree())
            folds().prefixes_of_nodes(mine.nodes, nodes, mine.whole, below,
                                      [&](const state* prefix) { set(i++, prefix); });
        else
            folds().template prefixes_in_row<false>([nodes](std::size_t k) { return nodes[k]; }, 0, mine.nodes.size(),
                                                    below, set);
    }

    Comm& comm_;
    const Op& op_;
    std::tuple<Limit...> limit_;
};

}  // namespace allfold::detail
