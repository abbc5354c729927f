// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
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
#include "allfold/collective/detail/arrangement.hpp"
#include "allfold/collective/detail/array_pieces.hpp"
#include "allfold/collective/gather.hpp"
#include "allfold/data/block_cyclic.hpp"
#include "allfold/data/detail/heap_array.hpp"
#include "allfold/data/partition.hpp"
#include "allfold/engine/detail/small_array.hpp"
#include "allfold/error.hpp"

/// @file
/// Folds of arrays that are distributed over several ranks. Each rank folds its pieces of the array. If the pieces are
/// few or long, every rank learns these folds; a handful of them are sent along with the claims that are compared
/// first. Otherwise each fold is sent to the rank that folds its section, and every rank learns the fold of each
/// section. For scans, the prefix before a piece is sent back to the rank that holds the piece.

namespace allfold::detail {

/// What one rank states about its part of a call, for all ranks to compare.
struct array_claim {
    block_cyclic source, target;
    std::uint64_t source_elements = 0, target_elements = 0;
    std::uint64_t types = 0;  ///< of the collective, the operator, elements and the order level
    std::uint64_t root = 0;
    std::uint64_t faults = 0;  ///< what is wrong with this rank's memory: a sum of these
    static constexpr std::uint64_t overlap = 1, null_data = 2;

    using words = std::array<std::uint64_t, 11>;
    static constexpr std::size_t own_words = 3;  // the last words, which differ between ranks
    [[nodiscard]] words in_words() const noexcept {
        return {source.block, source.offset, source.count, target.block,    target.offset,  target.count,
                types,        root,          faults,       source_elements, target_elements};
    }
    /// A hash of what must be the same on all ranks; never 0.
    [[nodiscard]] std::uint64_t hash() const noexcept {
        const words all = in_words();
        std::uint64_t h = 0;
        for (std::size_t i = 0; i < all.size() - own_words; ++i) h = (h ^ all[i] ^ h >> 29) * 0x9e3779b97f4a7c15u;
        return h | 1;
    }
    [[nodiscard]] static array_claim of(const std::uint64_t* w) noexcept {
        const auto n = [w](int i) { return static_cast<std::size_t>(w[i]); };
        return {{n(0), n(1), n(2)}, {n(3), n(4), n(5)}, w[9], w[10], w[6], w[7], w[8]};
    }
};

/// Throws if a rank's claim is invalid regardless of the other ranks.
inline void require_valid_claim(const arrangement_place& at, const array_claim& said) {
    said.source.check();
    said.target.check();
    if (said.source.count != said.target.count)
        at.reject(errc::mismatch, {"the source is ", said.source.text(), ", but the target is ", said.target.text(),
                                   ": they must have the same number of elements"});
    if (const auto root = static_cast<std::int64_t>(said.root); root < 0 || root >= at.size)
        at.reject(errc::bad_rank, {"root ", root, " is not in [0, ", at.size, ")"});
}
/// Throws if a rank holds more or fewer elements than its layout says, or its source and target overlap in part.
inline void require_elements(const arrangement_place& at, int rank, const array_claim& said) {
    const auto compare = [&](const block_cyclic& array, std::uint64_t elements, const char* what) {
        if (const std::size_t needed = array.extent(rank, at.size); elements != needed)
            at.reject(errc::mismatch, {"rank ", rank, " has ", elements, " elements of the ", what, ", but ",
                                       array.text(), " on ", at.size, " ranks gives it ", needed});
    };
    compare(said.source, said.source_elements, "source");
    if (said.target != said.source || said.target_elements != said.source_elements)
        compare(said.target, said.target_elements, "target");
    if ((said.faults & array_claim::null_data) != 0)
        at.reject(errc::bad_argument, {"rank ", rank, " has elements of the array but a null data pointer"});
    if ((said.faults & array_claim::overlap) != 0)
        at.reject(errc::overlap, {"source and target of rank ", rank, " overlap in part"});
}
/// Throws if a rank's claim differs from that of rank 0 or is invalid.
inline void require_one_array(const arrangement_place& at, std::span<const array_claim> claims) {
    const array_claim& first = claims[0];
    for (int r = 0; const array_claim& each : claims) {
        if (each.types != first.types)
            at.reject(errc::mismatch, {"rank ", r,
                                       " calls a different collective on distributed arrays than rank 0, or "
                                       "with a different operator, element type or order level"});
        const auto compare = [&](const block_cyclic& own, const block_cyclic& other, const char* what) {
            if (own != other)
                at.reject(errc::mismatch,
                          {what, " of rank ", r, " is ", own.text(), ", but that of rank 0 is ", other.text()});
        };
        compare(each.source, first.source, "the source");
        compare(each.target, first.target, "the target");
        if (each.root != first.root)
            at.reject(errc::mismatch, {"rank ", r, " names root ", static_cast<std::int64_t>(each.root),
                                       ", but rank 0 names root ", static_cast<std::int64_t>(first.root)});
        ++r;
    }
    require_valid_claim(at, first);
    for (int r = 0; const array_claim& each : claims) require_elements(at, r++, each);
}

/// Contiguous elements that are sent to a rank, or received from it.
struct parcel {
    int rank;
    std::size_t first;
    std::size_t length;
};

/// Sorts parcels by rank; returns the number of elements for each rank as a partition.
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

/// Whether the parcels are contiguous, each right after the one before.
[[nodiscard]] inline bool are_in_order(const std::vector<parcel>& parcels) noexcept {
    std::size_t end = 0;
    for (const parcel& each : parcels) {
        if (each.first != end) return false;
        end += each.length;
    }
    return true;
}

/// The elements that a rank holds of one array, by the rank that holds them in another array of the same elements.
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

/// Calls visit(parcel, offset in the packed buffer) for parcels that are sorted by rank.
template <class Visit>
void for_each_packed(const std::vector<parcel>& parcels, const partition& blocks, Visit visit) {
    int rank = -1;
    std::size_t at = 0;
    for (const parcel& each : parcels) {
        if (each.rank != rank) at = blocks.offset(rank = each.rank);
        visit(each, at);
        at += each.length;
    }
}

/// An exchange of parcels between all ranks, as stages of a call.
template <class T>
class parcel_exchange {
  public:
    /// Sends parcels of `from`; `result()` holds what arrives, at the offsets given by `received`.
    template <class Stages, class... Limit>
    void lay_out(Stages& stages, int ranks, const T* from, std::vector<parcel> sent, std::vector<parcel> received,
                 const Limit&... limit) {
        sent_ = std::move(sent);
        received_ = std::move(received);
        sent_partition_ = sort_by_rank(sent_, ranks);
        received_partition_ = sort_by_rank(received_, ranks);
        arrived_ = heap_array<T>(received_partition_.total());
        if (!are_in_order(sent_)) {
            packed_ = heap_array<T>(sent_partition_.total());
            stages.own([this, from] { pack(from); });
            from = packed_.data();
        }
        const std::span<const T> out(from, sent_partition_.total());
        const std::span<T> in(arrived_.data(), arrived_.size());
        stages.run(all_to_all, out, in, input_blocks{sent_partition_}, output_blocks{received_partition_}, limit...);
        is_placed_ = !are_in_order(received_);
        if (!is_placed_) return;
        placed_ = heap_array<T>(received_partition_.total());
        stages.own([this] { place(); });
    }
    [[nodiscard]] T* result() const noexcept { return is_placed_ ? placed_.data() : arrived_.data(); }

  private:
    void pack(const T* from) {
        for_each_packed(sent_, sent_partition_, [&](const parcel& p, std::size_t at) {
            std::copy_n(from + p.first, p.length, packed_.data() + at);
        });
    }
    void place() {
        for_each_packed(received_, received_partition_, [&](const parcel& p, std::size_t at) {
            std::move(arrived_.data() + at, arrived_.data() + at + p.length, placed_.data() + p.first);
        });
    }

    std::vector<parcel> sent_, received_;
    partition sent_partition_ = partition::even(0, 1), received_partition_ = sent_partition_;
    heap_array<T> packed_, arrived_, placed_;
    bool is_placed_ = false;
};

/// A rank's first message: the hash of its claim, or 0 if the claim is invalid, and the folds of its pieces if they
/// fit. The type is the same whatever the ranks call.
struct alignas(16) claim_message {
    std::array<std::byte, 56> folds{};  // together with the claim, one cache line
    std::uint64_t claim = 0;

    /// How many folds fit. They are read where they arrive, so they have to be aligned there.
    template <class State>
    static constexpr std::size_t most =
        std::is_trivially_copyable_v<State> && alignof(State) <= 16 ? sizeof(folds) / sizeof(State) : 0;
};

/// How the ranks of one call fold an array of `Value`, in stages. Must not be moved. `Limit` is a deadline, or nothing.
template <class Op, class Value, class... Limit>
class array_fold {
  public:
    using state = typename state_of<Op, Value>::type;

    array_fold(int rank, int ranks, const Op& op, const Limit&... limit)
        : rank_(rank), ranks_(ranks), op_(op), limit_(limit...) {}

    /// Compares the claims of all ranks: either all ranks throw, or none does. If no element has to move, a few folds
    /// of pieces of `x` are sent along.
    template <class Stages>
    void agree(Stages& stages, const char* collective, const array_claim& claim, const Value* x,
               const how_folded& how) {
        const arrangement_place at{collective, rank_, ranks_};
        if constexpr (Stages::is_deferred) {  // the later stages are laid out from the claim, so it must be valid
            require_valid_claim(at, claim);
            require_elements(at, rank_, claim);
            compare(stages, at, claim);
        } else if (!exchange_claims(stages, at, claim, x, how)) {
            compare(stages, at, claim);
        }
    }

    /// A rank's elements of an array, rearranged to another layout.
    template <class Stages>
    [[nodiscard]] const Value* moved(Stages& stages, const Value* from, const block_cyclic& source,
                                     const block_cyclic& target) {
        exchange(stages, moving_, from, parcels_between(source, target, rank_, ranks_),
                 parcels_between(target, source, rank_, ranks_));
        return moving_.result();
    }

    /// Calls done(fold), for an array that is not empty, on one rank, or on all ranks if `root` is negative.
    template <class Stages, class Done>
    void total(Stages& stages, const Value* x, const block_cyclic& array, const how_folded& how, int root, Done done) {
        cut(array, how);
        learn(stages, x, root);
        stages.own([this, root, done] {
            if (root < 0 || root == rank_) done(parts_->goes_to_all() ? fold_of_pieces() : fold_of_sections());
        });
    }

    /// Calls store(index among own elements, number in the array, prefix) as `folding` does.
    template <bool Inclusive, class Stages, class Store>
    void prefixes(Stages& stages, const Value* x, const block_cyclic& array, const how_folded& how, Store store) {
        cut(array, how);
        learn(stages, x, -1);
        if (parts_->goes_to_all()) {
            if constexpr (max_sent_folds > 0)
                own_starts_.resize(held_);
            else
                own_starts_ = heap_array<state>(held_);
            stages.own([this] { find_own_starts(); });
        } else {
            starts_ = heap_array<state>(nodes_.size());
            stages.own([this] { find_starts_of_section(); });
            exchange(stages, returning_, starts_.data(), to_holders(), to_folders());
        }
        stages.own([this, x, store] { find_prefixes<Inclusive>(x, store); });
    }

  private:
    static constexpr std::size_t max_sent_folds = claim_message::most<state>;
    /// Prefixes of this many pieces are found at a time, so that a fold need not wait for the one before it.
    static constexpr std::size_t pieces_abreast = 4;
    static constexpr bool fits_registers = std::is_trivially_copyable_v<state> && sizeof(state) <= 16;

    [[nodiscard]] static std::size_t index(int rank) noexcept { return static_cast<std::size_t>(rank); }
    [[nodiscard]] std::size_t size() const noexcept { return index(ranks_); }
    [[nodiscard]] auto lifting(const Value* x) const {
        return [this, x](std::size_t i) { return static_cast<state>(detail::lifted(op_, x[i])); };
    }
    [[nodiscard]] state joined(const state& a, const state& b) const { return detail::fold_two<state>(op_, a, b); }
    [[nodiscard]] auto folds() const {
        const auto join = [this](const state& a, const state& b) { return joined(a, b); };
        return folding<state, decltype(join)>(join);
    }
    template <class Stages, class Collective, class... Arguments>
    void limited(Stages& stages, const Collective& run, Arguments&&... arguments) {
        std::apply([&](const auto&... limit) { stages.run(run, std::forward<Arguments>(arguments)..., limit...); },
                   limit_);
    }
    template <class Stages, class T>
    void exchange(Stages& stages, parcel_exchange<T>& through, const T* from, std::vector<parcel> sent,
                  std::vector<parcel> received) {
        std::apply(
            [&](const auto&... limit) {
                through.lay_out(stages, ranks_, from, std::move(sent), std::move(received), limit...);
            },
            limit_);
    }

    // --- Claims

    /// Whether all ranks make the same claim, and it is valid.
    template <class Stages>
    [[nodiscard]] bool exchange_claims(Stages& stages, const arrangement_place& at, const array_claim& claim,
                                       const Value* x, const how_folded& how) {
        // Not on the stack: a transport may still hold them after a failure. The last one is sent.
        claim_messages_ = heap_array<claim_message>(size() + 1);
        const std::span<claim_message> all(claim_messages_.data(), size());
        claim_message& own = claim_messages_[size()];
        if (is_valid_claim(at, claim)) {
            own.claim = claim.hash();
            if (claim.source == claim.target) {
                cut(claim.source, how);
                fold_into(stages, own, x);
            }
        }
        limited(stages, all_gather, std::span<const claim_message>(&own, 1), all);
        return own.claim != 0 && std::ranges::all_of(all, [&](const auto& g) { return g.claim == own.claim; });
    }
    /// An invalid claim is reported later, once all ranks know of it.
    [[nodiscard]] bool is_valid_claim(const arrangement_place& at, const array_claim& claim) const {
        try {
            require_valid_claim(at, claim);
            require_elements(at, rank_, claim);
        } catch (const error&) {
            return false;
        }
        return true;
    }
    template <class Stages>
    void fold_into(Stages& stages, claim_message& said, const Value* x) {
        if constexpr (max_sent_folds > 0) {
            are_folds_sent_ = parts_->goes_to_all() && parts_->max_held() <= max_sent_folds;
            if (!are_folds_sent_) return;
            stages.own([&] {
                std::array<state, max_sent_folds> own;
                fold_pieces(x, own.data());
                std::memcpy(said.folds.data(), own.data(), parts_->held_by(rank_) * sizeof(state));
            });
        }
    }
    template <class Stages>
    void compare(Stages& stages, const arrangement_place& at, const array_claim& claim) {
        const array_claim::words words = claim.in_words();
        claim_ = heap_array<std::uint64_t>(words.size());
        claims_ = heap_array<std::uint64_t>(words.size() * size());
        std::ranges::copy(words, claim_.begin());
        limited(stages, all_gather, std::span(claim_.data(), claim_.size()), std::span(claims_.data(), claims_.size()));
        stages.compare([this, at] {
            std::vector<array_claim> claims;
            claims.reserve(size());
            for (std::size_t r = 0; r < size(); ++r) claims.push_back(array_claim::of(&claims_[r * claim_.size()]));
            require_one_array(at, claims);
        });
    }

    // --- Folds of pieces, and of sections

    /// Unless it has been done already.
    void cut(const block_cyclic& array, const how_folded& how) {
        if (!parts_) parts_.emplace(array, ranks_, how);
    }

    /// Folds the pieces that this rank holds. Afterwards the root, or every rank if `root` is negative, knows the folds
    /// of all pieces or of all sections.
    template <class Stages>
    void learn(Stages& stages, const Value* x, int root) {
        held_ = parts_->held_by(rank_);
        if (are_folds_sent_) return;
        values_ = heap_array<state>(held_);
        stages.own([this, x] { fold_pieces(x, values_.data()); });
        if (parts_->goes_to_all())
            gather_folds(stages, values_, root);
        else
            fold_section(stages, root);
    }
    void fold_pieces(const Value* x, state* folds_of_pieces) const {
        const array_pieces& parts = *parts_;
        const auto leaf = lifting(x);
        std::size_t local = 0;
        parts.for_each_held(rank_, [&](const piece& p) {
            *folds_of_pieces++ = parts.in_one_tree()    ? folds().in_tree(leaf, local, p.length)
                                 : parts.in_any_order() ? folds().in_any_order(leaf, local, p.length)
                                                        : folds().in_row(leaf, local, p.length);
            local += p.length;
        });
    }
    /// Sends the folds of pieces or sections that this rank has to all ranks, or to the root.
    template <class Stages>
    void gather_folds(Stages& stages, const heap_array<state>& own, int root) {
        std::vector<std::size_t> has(size());
        for (int r = 0; r < ranks_; ++r)
            has[index(r)] = parts_->goes_to_all() ? parts_->held_by(r) : parts_->section_of_rank(r) ? 1 : 0;
        by_rank_ = partition::sizes(has);
        learned_ = heap_array<state>(root < 0 || root == rank_ ? by_rank_.total() : 0);
        const std::span<const state> mine(own.data(), own.size());
        const std::span<state> all(learned_.data(), learned_.size());
        if (root < 0)
            limited(stages, all_gather, mine, all, by_rank_);
        else
            limited(stages, gather, mine, all, by_rank_, allfold::root{root});
    }

    /// Calls visit(rank that holds a piece, fold of the piece) for each piece, in order.
    template <class Visit>
    void for_each_fold(Visit visit) const {
        small_array<const state*, inline_ranks> next;
        next.resize(size());
        for (int r = 0; r < ranks_; ++r) next[index(r)] = folds_of(r);
        if (parts_->in_turns())
            parts_->for_each_in_turns([&](std::size_t turn, int holder) { visit(holder, next[index(holder)][turn]); });
        else
            parts_->for_each([&](const piece&, int holder) { visit(holder, *next[index(holder)]++); });
    }
    [[nodiscard]] const state* folds_of(int rank) const {
        if (are_folds_sent_) return reinterpret_cast<const state*>(claim_messages_[index(rank)].folds.data());
        return learned_.data() + by_rank_.offset(rank);
    }
    [[nodiscard]] state fold_of_pieces() {
        if (parts_->in_one_tree()) {
            find_nodes();
            return folds().of_nodes(nodes_, node_folds_.data(), whole());
        }
        std::optional<state> all;
        for_each_fold([&](int, const state& fold) { all = all ? joined(*all, fold) : fold; });
        return *all;
    }
    /// Collects all pieces and their folds, in order.
    void find_nodes() {
        nodes_.clear();
        holders_.clear();
        parts_->for_each([this](const piece& p, int holder) {
            nodes_.push_back(p);
            holders_.push_back(holder);
        });
        node_folds_ = heap_array<state>(nodes_.size());
        for_each_fold([this, i = std::size_t{0}](int, const state& fold) mutable { node_folds_[i++] = fold; });
    }
    [[nodiscard]] piece whole() const noexcept { return {0, parts_->array().count}; }

    /// Finds the prefix before each piece of this rank. The array's first piece has none; its value is not set.
    void find_own_starts() {
        if (parts_->in_one_tree()) return find_own_starts_in_tree();
        if constexpr (fits_registers)
            if (parts_->in_turns()) return find_own_starts_in_turns();
        for_each_fold(
            [this, next = own_starts_.data(), all = std::optional<state>()](int holder, const state& fold) mutable {
                if (holder == rank_) {
                    if (all) *next = *all;
                    ++next;
                }
                all = all ? joined(*all, fold) : fold;
            });
    }
    void find_own_starts_in_tree() {
        find_nodes();
        std::size_t i = 0, own = 0;
        folds().prefixes_of_nodes(nodes_, node_folds_.data(), whole(), nullptr, [&](const state* before) {
            if (holders_[i++] != rank_) return;
            if (before != nullptr) own_starts_[own] = *before;
            ++own;
        });
    }
    /// Folds each turn by itself, so that the prefixes before all turns are a chain of only one fold for each of them.
    void find_own_starts_in_turns() {
        small_array<const state*, inline_ranks> folds_of_rank;
        folds_of_rank.resize(size());
        for (int r = 0; r < ranks_; ++r) folds_of_rank[index(r)] = folds_of(r);
        const state* const* const folds = folds_of_rank.data();
        parts_->for_each_in_turns([this, folds, next = own_starts_.data(), now = std::size_t{0},
                                   before = std::optional<state>(),
                                   turn_fold = std::optional<state>()](std::size_t turn, int holder) mutable {
            if (turn != std::exchange(now, turn)) {
                before = before ? joined(*before, *turn_fold) : *turn_fold;
                turn_fold.reset();
            }
            if (holder == rank_) {
                if (before && turn_fold)
                    *next = joined(*before, *turn_fold);
                else if (before || turn_fold)
                    *next = before ? *before : *turn_fold;
                ++next;
            }
            const state& fold = folds[index(holder)][turn];
            turn_fold = turn_fold ? joined(*turn_fold, fold) : fold;
        });
    }

    // --- Sections

    /// Where to send the value of each of this rank's pieces, and where each value of its section comes from.
    [[nodiscard]] std::vector<parcel> to_folders() const {
        std::vector<parcel> made;
        made.reserve(held_);
        parts_->for_each_held(rank_, [&](const piece& p) {
            made.push_back({parts_->folder_of(parts_->section_of(p.first)), made.size(), 1});
        });
        return made;
    }
    [[nodiscard]] std::vector<parcel> to_holders() const {
        std::vector<parcel> made;
        made.reserve(holders_.size());
        for (const int holder : holders_) made.push_back({holder, made.size(), 1});
        return made;
    }

    /// Folds the pieces of the section that this rank is responsible for, if any.
    template <class Stages>
    void fold_section(Stages& stages, int root) {
        own_ = parts_->section_of_rank(rank_);
        if (own_)
            parts_->for_each_in(*own_, [&](const piece& p, int holder) {
                nodes_.push_back(p);
                holders_.push_back(holder);
            });
        top_ = heap_array<state>(own_ ? 1 : 0);
        exchange(stages, sending_, values_.data(), to_folders(), to_holders());
        if (own_)
            stages.own([this] {
                const state* const nodes = sending_.result();
                top_[0] = parts_->in_one_tree()
                              ? folds().of_nodes(nodes_, nodes, parts_->section(*own_))
                              : folds().in_row([nodes](std::size_t i) { return nodes[i]; }, 0, nodes_.size());
            });
        gather_folds(stages, top_, root);
    }
    [[nodiscard]] auto tops() const {
        return [this](std::size_t section) { return learned_[by_rank_.offset(parts_->folder_of(section))]; };
    }
    [[nodiscard]] state fold_of_sections() const {
        const std::size_t all = parts_->sections();
        return parts_->in_one_tree() ? folds().in_tree(tops(), 0, all) : folds().in_row(tops(), 0, all);
    }
    /// The prefix before a section, bracketed as the tree brackets the prefix before an element.
    [[nodiscard]] state fold_before(std::size_t section) const {
        return parts_->in_one_tree() ? folds().before_in_tree(tops(), section) : folds().in_row(tops(), 0, section);
    }

    /// Finds the prefix before each piece of this rank's section. The array's first piece has none; its value is
    /// arbitrary.
    void find_starts_of_section() {
        if (!own_) return;
        std::optional<state> before;
        if (*own_ > 0) before = fold_before(*own_);
        const state* const below = before ? std::addressof(*before) : nullptr;
        const state* const nodes = sending_.result();
        const auto set = [&](std::size_t i, const state* prefix) {
            starts_[i] = prefix != nullptr ? *prefix : nodes[i];
        };
        std::size_t i = 0;
        if (parts_->in_one_tree())
            folds().prefixes_of_nodes(nodes_, nodes, parts_->section(*own_), below,
                                      [&](const state* prefix) { set(i++, prefix); });
        else
            folds().template prefixes_in_row<false>([nodes](std::size_t k) { return nodes[k]; }, 0, nodes_.size(),
                                                    below, set);
    }

    // --- Prefixes

    template <bool Inclusive, class Store>
    void find_prefixes(const Value* x, const Store& store) {
        const state* const before = parts_->goes_to_all() ? own_starts_.data() : returning_.result();
        const auto leaf = lifting(x);
        std::size_t local = 0, number = 0;
        const auto find = [&](const piece& p) {
            const state* const below = p.first == 0 ? nullptr : before + number;
            const auto keep = [&](std::size_t at, const state* prefix) { store(at, p.first + at - local, prefix); };
            if (parts_->in_one_tree())
                folds().template prefixes_in_tree<Inclusive>(leaf, local, p.length, below, keep);
            else
                folds().template prefixes_in_row<Inclusive>(leaf, local, p.length, below, keep);
            local += p.length;
            ++number;
        };
        if (parts_->in_one_tree() || !fits_registers) return parts_->for_each_held(rank_, find);
        std::array<piece, pieces_abreast> row;
        std::size_t waiting = 0;
        const auto find_rest = [&] {
            for (const piece& p : std::span(row).first(std::exchange(waiting, 0))) find(p);
        };
        parts_->for_each_held(rank_, [&](const piece& p) {
            if (p.first == 0) return find(p);
            if (waiting > 0 && p.length != row[0].length) find_rest();
            row[waiting++] = p;
            if (waiting < pieces_abreast) return;
            const auto keep = [&](std::size_t i, std::size_t at, const state* prefix) {
                store(local + i * p.length + at, row[i].first + at, prefix);
            };
            folds().template prefixes_abreast<Inclusive, pieces_abreast>(leaf, local, p.length, before + number, keep);
            local += pieces_abreast * p.length;
            number += std::exchange(waiting, 0);
        });
        find_rest();
    }

    int rank_, ranks_;
    const Op& op_;
    std::tuple<Limit...> limit_;
    heap_array<std::uint64_t> claim_, claims_;
    heap_array<claim_message> claim_messages_;
    bool are_folds_sent_ = false;    // the folds of all pieces came with the claims
    parcel_exchange<Value> moving_;  // moves elements to their ranks in the target
    std::optional<array_pieces> parts_;
    std::size_t held_ = 0;                       // number of pieces of this rank
    std::optional<std::size_t> own_;             // section of this rank, if any
    std::vector<piece> nodes_;                   // all pieces, or those of its section
    std::vector<int> holders_;                   // the ranks that hold these
    heap_array<state> node_folds_;               // folds of all pieces
    partition by_rank_ = partition::even(0, 1);  // number of folds of pieces or sections per rank
    heap_array<state> values_, top_;             // folds of own pieces, and of the own section
    heap_array<state> learned_;                  // folds of all pieces or sections, by rank
    heap_array<state> starts_;                   // prefixes before the pieces of the section
    /// Prefixes before own pieces, if all ranks learn the folds of all pieces.
    std::conditional_t<(max_sent_folds > 0), small_array<state, max_sent_folds>, heap_array<state>> own_starts_;
    parcel_exchange<state> sending_, returning_;  // values of pieces, and the prefixes before them
};

}  // namespace allfold::detail
