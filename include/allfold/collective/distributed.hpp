// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/detail/array_fold.hpp"
#include "allfold/collective/exclusive_scan.hpp"
#include "allfold/collective/inclusive_scan.hpp"
#include "allfold/collective/reduce.hpp"
#include "allfold/data/block_cyclic.hpp"

/// @file
/// One array whose elements lie on several ranks: its fold, and its scans.

namespace allfold {

/// What this rank holds of an array that is laid out over all ranks of a communicator, for a fold or a scan of its
/// elements.
///
///     const block_cyclic layout{.block = 64, .count = n};        // or blocks(n, P), on_rank(r, n)
///     std::vector<double> x(layout.extent(comm.rank(), comm.size()));
///
///     all_reduce(comm, distributed(x, layout), total, sum());    // x[0] ∘ x[1] ∘ ... ∘ x[n-1] on every rank
///     reduce(comm, distributed(x, layout), total, op, root{2});  // on rank 2
///     inclusive_scan(comm, distributed(x, layout), op);          // in place: element i becomes x[0] ∘ ... ∘ x[i]
///     exclusive_scan(comm, distributed(x, from), distributed(y, to), op);
///
/// - Afterwards: as each line says. The target of a scan may have other blocks and another offset than its source;
///   elements move where they must. The first element of an exclusive scan becomes the identity of the operator; if it
///   has none, it stays as it was.
/// - Shapes: x is a contiguous range of the elements that the layout gives this rank, in their order, 0 as well.
///   Layouts are the same on all ranks; source and target have as many elements. Elements can be made without a value.
///   In a scan both are the same memory, or share none, unless their layouts differ.
/// - Order: that of the elements, unless the operator is commutative; then each rank folds its own first, and these
///   folds in rank order. `order::rank`: that of the elements for every operator. `order::global`: one bracketing too,
///   a tree over the numbers of the elements, so that the bits are the same for every P and layout; in scans as well.
///   Of `order::tree` there is no other meaning here.
/// - Cost: n/P folds by each rank, twice as many in a scan under `order::global`; one round in which ranks compare 11
///   numbers; then an all_gather (or gather) of P folds or less. Where the order of elements is to be kept each rank
///   also sends the fold of each of its blocks to a rank that folds those of a section of the array, unless no rank has
///   two blocks; under `order::global` it sends 2·log2(block) folds of a block that is not aligned. In a scan as many
///   come back. A target of another layout: an all_to_all of the elements.
/// - Errors: `mismatch` for layouts, roots or operators that differ between ranks, for sources and targets of other
///   lengths, and for ranks that hold more or fewer elements than their layout says; `bad_partition` for blocks of
///   nothing; `bad_rank`; `overlap`; `bad_argument` for no elements and no identity. All ranks throw these, before
///   anything is folded, and may use the communicator afterwards.
/// - Options are `root{}`, `deadline{}` (of each of its messages' collectives) and an order level. There is no `start`
///   and no `prepare`: a call waits between its rounds.
/// - Source: Bonachea and Hargrove, "GASNet collectives design notes", 2004, prefix reduction and data layout.
///   Departures: folds of blocks go to one rank each, rather than to all of them in log2 P rounds; an array on one rank
///   is a long block, not a block of length 0; memory begins with the first element that a rank holds.
template <class T>
class distributed {
  public:
    using element_type = T;

    template <detail::element_range X>
    distributed(X&& x, const block_cyclic& layout)
        : elements_(std::ranges::data(x), static_cast<std::size_t>(std::ranges::size(x))), layout_(layout) {}

    [[nodiscard]] std::span<T> elements() const noexcept { return elements_; }
    [[nodiscard]] const block_cyclic& layout() const noexcept { return layout_; }

  private:
    std::span<T> elements_;
    block_cyclic layout_;
};

/// Of constant elements where the range is.
template <class X>
distributed(X&&, const block_cyclic&) -> distributed<std::remove_reference_t<detail::range_reference<X>>>;

namespace detail {

template <class X>
inline constexpr bool is_distributed = false;
template <class T>
inline constexpr bool is_distributed<distributed<T>> = true;

template <class T>
struct argument<distributed<T>> {
    using element = std::remove_const_t<T>;
};
template <class T>
inline constexpr bool refers<distributed<T>> = true;
template <class T>
inline constexpr bool writable<distributed<T>> = !std::is_const_v<T>;
template <class T>
inline constexpr bool writable<const distributed<T>> = !std::is_const_v<T>;

/// What such a call asks for must have a meaning; where not, one line of the compiler says what to write.
template <class Collective, class Op, class T, class... Options>
[[nodiscard]] consteval bool require_array_call() {
    using state = typename state_of<Op, T>::type;
    constexpr bool folds_arrays =
        std::same_as<Collective, reduce_collective> || std::same_as<Collective, all_reduce_collective> ||
        std::same_as<Collective, inclusive_scan_collective> || std::same_as<Collective, exclusive_scan_collective>;
    static_assert(folds_arrays, "allfold: distributed arrays are for reduce, all_reduce and the scans");
    constexpr bool known =
        ((std::same_as<Options, root> || std::same_as<Options, deadline> || is_order<Options>) && ...);
    static_assert(known, "allfold: of distributed arrays a collective takes root{}, deadline{} and an order level");
    constexpr bool is_made = std::default_initializable<T> && std::default_initializable<state>;
    static_assert(is_made, "allfold: elements of distributed arrays must be default constructible");
    constexpr bool keeps_order = commutative_operator<Op, state> ||
                                 !std::same_as<order_among<Options...>, std::remove_const_t<decltype(order::any)>>;
    static_assert(
        keeps_order,
        "allfold: order::any needs a commutative operator: write allfold::commutative(op) if it is, or ask for "
        "order::rank");
    return folds_arrays && known && is_made && keeps_order;
}

/// One call of distributed arrays.
template <class Collective, class Comm, class Op, class T, class... Options>
class array_call {
    static constexpr bool is_scan =
        std::same_as<Collective, inclusive_scan_collective> || std::same_as<Collective, exclusive_scan_collective>;
    static constexpr bool is_inclusive = std::same_as<Collective, inclusive_scan_collective>;
    using level = order_among<Options...>;
    using state = typename state_of<Op, T>::type;
    static constexpr bool may_mix = level_of<Op, state, level>() == order::any && !is_scan;
    static constexpr bool in_one_tree = level_of<Op, state, level>() >= order::tree;

  public:
    array_call(Comm& comm, const Op& op, const Options&... options)
        : comm_(comm), op_(op), folding_(make_folding(comm, op, options...)) {
        if constexpr (has_option<root, Options...>) root_ = find_option<root>(options...)->rank;
    }

    template <class Out>
    void total(const distributed<const T>& in, Out& out) {
        const block_cyclic& array = in.layout();
        agree({array, array, in.elements().size(), in.elements().size(), type_mark<Out>(), root_mark(), 0});
        require_lowered(array);
        constexpr bool everyone = std::same_as<Collective, all_reduce_collective>;
        if (array.count == 0) return set_identity(out, !everyone && comm_.rank() != root_);
        made_or_given_up(comm_, [&] {
            const int root = everyone ? -1 : root_;
            const T* const x = in.elements().data();
            const std::optional<state> all =
                may_mix ? folding_.total(x, array, root) : folding_.total(x, parts_of(array), root);
            if (all) store(out, *all, array.count);
        });
    }

    template <class Out>
    void scan(const distributed<const T>& in, const distributed<Out>& out) {
        const block_cyclic &source = in.layout(), &target = out.layout();
        agree({source, target, in.elements().size(), out.elements().size(), type_mark<Out>(), root_mark(),
               overlap(in, out)});
        require_lowered(target);
        if (target.count == 0) return;
        made_or_given_up(comm_, [&] {
            const T* x = in.elements().data();
            heap_array<T> moved;
            if (source != target) {
                moved = folding_.moved(x, source, target);
                x = moved.data();
            }
            const auto keep = [&](std::size_t at, std::size_t number, const state* prefix) {
                Out& place = out.elements()[at];
                if (prefix != nullptr)
                    store(place, *prefix, is_inclusive ? number + 1 : number);
                else
                    store_identity(place);
            };
            folding_.template prefixes<is_inclusive>(x, parts_of(target), keep);
        });
    }

  private:
    [[nodiscard]] static auto make_folding(Comm& comm, const Op& op, const Options&... options) {
        if constexpr (has_option<deadline, Options...>)
            return array_fold<Comm, Op, T, deadline>(comm, op, *find_option<deadline>(options...));
        else
            return array_fold<Comm, Op, T>(comm, op);
    }
    [[nodiscard]] array_pieces parts_of(const block_cyclic& array) const { return {array, comm_.size(), in_one_tree}; }
    [[nodiscard]] arrangement_place here() const { return {Collective::promise.name, comm_.rank(), comm_.size()}; }

    template <class Out>
    [[nodiscard]] static std::uint64_t type_mark() noexcept {
        return hash_of_types<Collective, T, Op, Out>() * 8 +
               static_cast<std::uint64_t>(level_of<Op, state, level>().level());
    }
    [[nodiscard]] std::uint64_t root_mark() const noexcept {
        return static_cast<std::uint64_t>(static_cast<std::int64_t>(root_));
    }
    template <class Out>
    [[nodiscard]] static std::uint64_t overlap(const distributed<const T>& in, const distributed<Out>& out) noexcept {
        if (in.layout() != out.layout()) return 0;  // then the elements are read before anything is written
        const auto bytes = [](const auto& elements) {
            const auto all = std::as_bytes(elements);
            return memory_range{all.data(), all.data() + all.size()};
        };
        const memory_range from = bytes(in.elements()), to = bytes(std::span<const Out>(out.elements()));
        return from.shares(to) && (from.begin != to.begin || sizeof(T) != sizeof(Out)) ? 1 : 0;
    }
    void agree(const array_claim& claim) {
        if constexpr (std::same_as<Collective, reduce_collective>)
            return folding_.agree(Collective::promise.name, claim);
        array_claim without_root = claim;
        without_root.root = 0;
        folding_.agree(Collective::promise.name, without_root);
    }

    /// The count of contributions is an int.
    void require_lowered(const block_cyclic& array) const {
        if constexpr (lowering_operator<Op, state>)
            if (array.count > static_cast<std::size_t>(std::numeric_limits<int>::max()))
                here().reject(errc::bad_argument,
                              {"lower() of this operator cannot be told of ", array.count, " contributions"});
    }
    template <class Out>
    void store(Out& place, const state& fold, std::size_t contributions) const {
        place = static_cast<Out>(lower_part(op_, fold, static_cast<int>(contributions)));
    }
    /// The fold of nothing; false where nobody knows it.
    template <class Out>
    bool store_identity(Out& place) const {
        if constexpr (operator_with_identity<Op, state>)
            store(place, identity_of<state>(op_), 0);
        else if constexpr (operator_with_identity<Op, Out>)
            place = identity_of<Out>(op_);
        else
            return false;
        return true;
    }
    template <class Out>
    void set_identity(Out& out, bool is_elsewhere) const {
        if constexpr (operator_with_identity<Op, state> || operator_with_identity<Op, Out>) {
            if (!is_elsewhere) store_identity(out);
        } else {
            here().reject(errc::bad_argument, {"the array has no elements, and the operator no identity"});
        }
    }

    Comm& comm_;
    const Op& op_;
    decltype(make_folding(std::declval<Comm&>(), std::declval<const Op&>(),
                          std::declval<const Options&>()...)) folding_;
    int root_ = 0;
};

template <class T>
struct own_way<distributed<T>> {
    static constexpr bool exists = true;

    template <class Collective, class Comm, class Op, class... Options>
    static void in_place(Comm& comm, const distributed<T>& x, const Op& op, const Options&... options) {
        constexpr bool is_scan =
            std::same_as<Collective, inclusive_scan_collective> || std::same_as<Collective, exclusive_scan_collective>;
        static_assert(is_scan,
                      "allfold: the fold of a distributed array is one value: pass a variable for it after the array");
        if constexpr (is_scan) out_of_place<Collective>(comm, x, x, op, options...);
    }
    template <class Collective, class Comm, class Out, class Op, class... Options>
    static void out_of_place(Comm& comm, const distributed<T>& in, Out& out, const Op& op, const Options&... options) {
        using value = std::remove_const_t<T>;
        if constexpr (require_array_call<Collective, Op, value, Options...>()) {
            constexpr bool is_scan = std::same_as<Collective, inclusive_scan_collective> ||
                                     std::same_as<Collective, exclusive_scan_collective>;
            constexpr bool fits = is_scan ? is_distributed<std::remove_const_t<Out>> : object_for<Out, Collective>;
            static_assert(fits,
                          "allfold: the output of a scan of a distributed array is another one, and that of a reduce "
                          "or all_reduce a variable");
            constexpr bool is_writable = !fits || writable<std::remove_reference_t<Out>>;
            static_assert(is_writable, "allfold: the output of this collective must not be const");
            array_call<Collective, Comm, Op, value, Options...> call(comm, op, options...);
            const distributed<const value> from(in.elements(), in.layout());
            if constexpr (fits && is_writable) {
                if constexpr (is_scan)
                    call.scan(from, out);
                else
                    call.total(from, out);
            }
        }
    }
};

}  // namespace detail
}  // namespace allfold
