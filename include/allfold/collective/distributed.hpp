// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/detail/array_fold.hpp"
#include "allfold/collective/detail/stages.hpp"
#include "allfold/collective/exclusive_scan.hpp"
#include "allfold/collective/inclusive_scan.hpp"
#include "allfold/collective/reduce.hpp"
#include "allfold/data/block_cyclic.hpp"
#include "allfold/data/raw_rows.hpp"

/// @file
/// One array whose elements are distributed over several ranks: its fold, and its scans.

namespace allfold {

/// This rank's share of an array that is laid out over all ranks of a communicator, as the operand of a fold or scan of
/// its elements.
///
///     const block_cyclic layout{.block = 64, .count = n};        // or blocks(n, P), on_rank(r, n)
///     std::vector<double> x(layout.extent(comm.rank(), comm.size()));
///
///     all_reduce(comm, distributed(x, layout), total, sum());    // x[0] ∘ x[1] ∘ ... ∘ x[n-1] on every rank
///     reduce(comm, distributed(x, layout), total, op, root{2});  // on rank 2
///     inclusive_scan(comm, distributed(x, layout), op);          // in place: element i becomes x[0] ∘ ... ∘ x[i]
///     exclusive_scan(comm, distributed(x, from), distributed(y, to), op);
///
/// - Afterwards: as each line says. The target of a scan may have another block size and offset than its source;
///   elements are moved as needed. The first element of an exclusive scan becomes the identity of the operator; if the
///   operator has none, that element is left unchanged.
/// - Shapes: x is a contiguous range of the elements that the layout assigns to this rank, in array order, possibly
///   none. Layouts are the same on all ranks; source and target have the same number of elements. Elements are default
///   constructible. In a scan, source and target are the same memory or share none, unless their layouts differ.
/// - Order: element order, unless the operator is commutative (by its type or, like `commutative_if`, by its value);
///   then each rank folds its own elements first, and these folds are folded in rank order. `order::rank`: element
///   order for every operator. `order::global`: a fixed bracketing as well, a tree over element numbers, so that the
///   bits are the same for every P and layout, also in scans. `order::tree` means the same here.
/// - Cost: n/P folds per rank, twice as many in a scan, and one round in which ranks compare one number (11 numbers if
///   the operation is in flight), which also carries the folds of a rank's blocks if these take up to 56 bytes.
///   Otherwise an all_gather (or gather) of these folds follows, and each rank goes through all of them; a commutative
///   reduce has one per rank. If blocks are many and short, each fold is sent to the rank that folds its section of the
///   array, and every rank learns P folds; in a scan as many values are sent back. Under `order::global` a block that
///   is not aligned has 2·log2(block) folds. A target with another layout adds an all_to_all of the elements.
/// - Errors: `mismatch` if layouts, roots or operators differ between ranks, if source and target differ in length, or
///   if a rank holds more or fewer elements than its layout says; `bad_partition` for empty blocks; `bad_rank`;
///   `overlap`; `bad_argument` for no elements and no identity. All ranks throw these, before anything is written, and
///   the communicator remains usable.
/// - Options are `root{}`, `deadline{}` (for each of the collectives that the call consists of) and an order level.
///   `start` and `prepare` work as for any collective, on all ranks alike; an error in these breaks the communicator.
/// - Source: Bonachea and Hargrove, "GASNet collectives design notes", 2004, prefix reduction and data layout.
///   Departures: folds of many short blocks are sent to one rank each, rather than to all in log2 P rounds; an array on
///   one rank is a long block, not a block of length 0; memory begins with the first element that a rank holds.
/// - Example: examples/collectives.cpp
template <class T>
class distributed {
  public:
    using element_type = T;

    template <class X>
    distributed(X&& x, const block_cyclic& layout) : layout_(layout) {
        constexpr bool has_type = !detail::is_raw<std::remove_cvref_t<X>>;
        static_assert(
            has_type,
            "allfold: raw rows cannot be part of a distributed array, whose elements must have a type: pass a span");
        constexpr bool is_contiguous = detail::require_contiguous<X>();
        constexpr bool is_range = !has_type || !is_contiguous || detail::element_range<X>;
        static_assert(is_range, "allfold: the elements of a distributed array are a contiguous range: pass a span");
        if constexpr (has_type && is_contiguous && is_range)
            elements_ = {std::ranges::data(x), static_cast<std::size_t>(std::ranges::size(x))};
    }

    [[nodiscard]] std::span<T> elements() const noexcept { return elements_; }
    [[nodiscard]] const block_cyclic& layout() const noexcept { return layout_; }

  private:
    std::span<T> elements_;
    block_cyclic layout_;
};

/// The elements are constant if those of the range are.
template <class X>
distributed(X&&, const block_cyclic&) -> distributed<typename detail::element_type_of<X>::type>;

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

/// Whether the call makes sense; if not, a one-line compile error says what to write.
template <class Collective, class Op, class T, class... Options>
[[nodiscard]] consteval bool require_array_call() {
    using state = typename state_of<Op, T>::type;
    constexpr bool folds_arrays =
        std::same_as<Collective, reduce_collective> || std::same_as<Collective, all_reduce_collective> ||
        std::same_as<Collective, inclusive_scan_collective> || std::same_as<Collective, exclusive_scan_collective>;
    static_assert(folds_arrays, "allfold: distributed arrays are for reduce, all_reduce and the scans");
    constexpr bool known =
        ((std::same_as<Options, root> || std::same_as<Options, deadline> || is_order<Options>) && ...);
    static_assert(known,
                  "allfold: with distributed arrays a collective takes only root{}, deadline{} and an order level");
    constexpr bool is_made = std::default_initializable<T> && std::default_initializable<state>;
    static_assert(is_made, "allfold: elements of distributed arrays must be default constructible");
    constexpr bool keeps_order = commutative_operator<Op, state> || says_commutative<Op, state> ||
                                 !std::same_as<order_among<Options...>, std::remove_const_t<decltype(order::any)>>;
    static_assert(
        keeps_order,
        "allfold: order::any needs a commutative operator: write allfold::commutative(op) if it is, or ask for "
        "order::rank");
    return folds_arrays && known && is_made && keeps_order;
}

/// One call on distributed arrays.
template <verb V, class Collective, class Comm, class Op, class T, class Out, class... Options>
class array_call final : public base_of_call<V> {
    static constexpr bool is_inclusive = std::same_as<Collective, inclusive_scan_collective>;
    static constexpr bool is_scan = is_inclusive || std::same_as<Collective, exclusive_scan_collective>;
    static constexpr bool is_for_all = std::same_as<Collective, all_reduce_collective>;
    using level = order_among<Options...>;
    using state = typename state_of<Op, T>::type;
    static constexpr bool is_asked = says_commutative<Op, state>;
    static constexpr bool in_any_order = level_of<Op, state, level>() == order::any;
    static constexpr bool in_one_tree = level_of<Op, state, level>() >= order::tree;

  public:
    /// `out`: a distributed array, or the address of a variable.
    array_call(Comm& comm, const distributed<const T>& in, const Out& out, const Op& op, const Options&... options)
        : comm_(comm), in_(in), out_(out), op_(op), folding_(make_folding(comm, op_, options...)) {
        if constexpr (has_option<root, Options...>) root_ = find_option<root>(options...)->rank;
    }

    template <class Stages>
    void lay_out(Stages& stages) {
        require_commuting();
        if constexpr (is_scan)
            scan(stages);
        else
            total(stages);
    }

  private:
    template <class Stages>
    void total(Stages& stages) {
        const block_cyclic& array = in_.layout();
        using result = std::remove_pointer_t<Out>;
        agree(stages, {array, array, in_.elements().size(), in_.elements().size(), type_mark<result>(), root_mark(),
                       null_data(in_.elements())});
        require_lowered(array);
        if (array.count == 0) return stages.compare([this] { set_identity(); });
        detail::make_or_abort(comm_, [&] {
            const int root = is_for_all ? -1 : root_;
            const T* const x = in_.elements().data();
            const auto done = [this](const state& all) { store(*out_, all, in_.layout().count); };
            folding_.total(stages, x, array, how(), root, done);
        });
    }
    template <class Stages>
    void scan(Stages& stages) {
        const block_cyclic &source = in_.layout(), &target = out_.layout();
        agree(stages,
              {source, target, in_.elements().size(), out_.elements().size(), type_mark<typename Out::element_type>(),
               root_mark(), overlap() | null_data(in_.elements()) | null_data(out_.elements())});
        require_lowered(target);
        if (target.count == 0) return;
        detail::make_or_abort(comm_, [&] {
            const T* x = in_.elements().data();
            if (source != target) x = folding_.moved(stages, x, source, target);
            const auto keep = [this](std::size_t at, std::size_t number, const state* prefix) {
                auto& place = out_.elements()[at];
                if (prefix != nullptr)
                    store(place, *prefix, is_inclusive ? number + 1 : number);
                else
                    store_identity(place);
            };
            folding_.template prefixes<is_inclusive>(stages, x, target, how(), keep);
        });
    }

    [[nodiscard]] static auto make_folding(Comm& comm, const Op& op, const Options&... options) {
        if constexpr (has_option<deadline, Options...>)
            return array_fold<Op, T, deadline>(comm.rank(), comm.size(), op, *find_option<deadline>(options...));
        else
            return array_fold<Op, T>(comm.rank(), comm.size(), op);
    }
    /// Whether ranks may fold what they hold in an order of their own.
    [[nodiscard]] bool commutes() const {
        if constexpr (is_asked && std::is_void_v<level>)
            return detail::commutes<state>(op_);
        else
            return in_any_order;
    }
    void require_commuting() const {
        if constexpr (is_asked && in_any_order)
            detail::make_or_abort(comm_, [&] {
                if (!detail::commutes<state>(op_))
                    here().reject(errc::bad_argument,
                                  {"the call asks for order::any, but the operator is declared not commutative"});
            });
    }
    [[nodiscard]] how_folded how() const {
        const bool any = commutes();
        return {any && !is_scan ? pieces_of::rank : in_one_tree ? pieces_of::tree : pieces_of::block, any};
    }
    [[nodiscard]] arrangement_place here() const { return {Collective::promise.name, comm_.rank(), comm_.size()}; }

    /// A mark of the types, and of what the operator declares about itself.
    template <class Result>
    [[nodiscard]] std::uint64_t type_mark() const {
        const std::uint64_t kept =
            commutes() && !is_scan ? 0 : static_cast<std::uint64_t>(level_of<Op, state, level>().level());
        return (hash_of_types<Collective, T, Op>() ^ type_hash<Result>() * 1009) * 8 + kept;
    }
    [[nodiscard]] std::uint64_t root_mark() const noexcept {
        return static_cast<std::uint64_t>(static_cast<std::int64_t>(root_));
    }
    [[nodiscard]] std::uint64_t overlap() const noexcept {
        if (in_.layout() != out_.layout()) return 0;  // the elements are then read before anything is written
        const auto bytes = [](const auto& elements) {
            const auto all = std::as_bytes(elements);
            return memory_range{all.data(), all.data() + all.size()};
        };
        const memory_range from = bytes(in_.elements()), to = bytes(out_.elements());
        const bool is_same = from.begin == to.begin && sizeof(T) == sizeof(typename Out::element_type);
        return from.shares(to) && !is_same ? array_claim::overlap : 0;
    }
    template <class X>
    [[nodiscard]] static std::uint64_t null_data(std::span<X> elements) noexcept {
        return elements.data() == nullptr && !elements.empty() ? array_claim::null_data : 0;
    }
    template <class Stages>
    void agree(Stages& stages, array_claim claim) {
        if constexpr (!std::same_as<Collective, reduce_collective>) claim.root = 0;
        folding_.agree(stages, Collective::promise.name, claim, in_.elements().data(), how());
    }

    /// The number of contributions must fit into an int.
    void require_lowered(const block_cyclic& array) const {
        if constexpr (lowering_operator<Op, state>)
            if (array.count > static_cast<std::size_t>(std::numeric_limits<int>::max()))
                here().reject(errc::bad_argument, {"lower() of this operator takes an int, which cannot hold ",
                                                   array.count, " contributions"});
    }
    template <class Result>
    void store(Result& place, const state& fold, std::size_t contributions) const {
        place = static_cast<Result>(detail::lowered(op_, fold, static_cast<int>(contributions)));
    }
    /// Stores the fold of no elements; `place` stays unchanged if there is no identity.
    template <class Result>
    void store_identity(Result& place) const {
        if constexpr (operator_with_identity<Op, state>)
            store(place, identity_of<state>(op_), 0);
        else if constexpr (operator_with_identity<Op, Result>)
            place = identity_of<Result>(op_);
    }
    void set_identity() const {
        using result = std::remove_pointer_t<Out>;
        if constexpr (operator_with_identity<Op, state> || operator_with_identity<Op, result>) {
            if (is_for_all || comm_.rank() == root_) store_identity(*out_);
        } else {
            here().reject(errc::bad_argument, {"the array has no elements and the operator has no identity"});
        }
    }

    Comm& comm_;
    distributed<const T> in_;
    Out out_;
    held_by_call<V, Op> op_;
    decltype(make_folding(std::declval<Comm&>(), std::declval<const Op&>(),
                          std::declval<const Options&>()...)) folding_;
    int root_ = 0;
};

template <class T>
struct custom_path<distributed<T>> {
    static constexpr bool exists = true;

    template <verb V, class Collective, class Comm, class Op, class... Options>
    static outcome_of<V> in_place(Comm& comm, const distributed<T>& x, const Op& op, const Options&... options) {
        constexpr bool is_scan =
            std::same_as<Collective, inclusive_scan_collective> || std::same_as<Collective, exclusive_scan_collective>;
        static_assert(is_scan,
                      "allfold: the fold of a distributed array is one value: pass a variable for it after the array");
        if constexpr (is_scan)
            return out_of_place<V, Collective>(comm, x, x, op, options...);
        else if constexpr (V != verb::call)
            return {};
    }
    template <verb V, class Collective, class Comm, class Out, class Op, class... Options>
    static outcome_of<V> out_of_place(Comm& comm, const distributed<T>& in, Out& out, const Op& op,
                                      const Options&... options) {
        using value = std::remove_const_t<T>;
        constexpr bool is_meant = require_array_call<Collective, Op, value, Options...>();
        constexpr bool is_scan =
            std::same_as<Collective, inclusive_scan_collective> || std::same_as<Collective, exclusive_scan_collective>;
        constexpr bool fits =
            !is_meant || (is_scan ? is_distributed<std::remove_const_t<Out>> : object_for<Out, Collective>);
        static_assert(fits,
                      "allfold: the output of a scan of a distributed array must be a distributed array, and that of a "
                      "reduce or all_reduce a variable");
        constexpr bool is_writable = !is_meant || !fits || writable<std::remove_reference_t<Out>>;
        static_assert(is_writable, "allfold: the output of this collective must not be const");
        if constexpr (is_meant && fits && is_writable &&
                      require_arguments<Op, std::span<const value>, std::span<element_of<Out>>>()) {
            using held = std::conditional_t<is_scan, std::remove_const_t<Out>, Out*>;
            using call = array_call<staged<V>, Collective, Comm, Op, value, held, Options...>;
            const distributed<const value> from(in.elements(), in.layout());
            if constexpr (is_scan)
                return issue_in_stages<V, call>(comm, Collective::promise.name, from, out, op, options...);
            else
                return issue_in_stages<V, call>(comm, Collective::promise.name, from, std::addressof(out), op,
                                                options...);
        } else if constexpr (V != verb::call) {
            return {};
        }
    }
};

}  // namespace detail
}  // namespace allfold
