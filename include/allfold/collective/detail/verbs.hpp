// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "allfold/algebra/diagnose.hpp"
#include "allfold/collective/detail/issue.hpp"
#include "allfold/collective/plan.hpp"
#include "allfold/transport/detail/processors.hpp"

/// @file
/// The verbs that every collective has: call, `start`, `prepare` and `plan`. A collective derives from `folding_verbs`
/// or `moving_verbs`, and defines
///
/// 1. `static constexpr contract promise`;
/// 2. `template <class A> using schedule_in`: which nested type of an algorithm performs it;
/// 3. `static shape lay_out(const arguments_given&)`: which rows its arguments hold, after checking them;
/// 4. `in_memory`, `by_messages` and `in_levels`: the candidates of `choose` if all ranks share memory, if they
///    exchange messages, and if groups of them share memory.

namespace allfold::detail {

/// What a caller may pass as an output: something that refers to its elements, or a variable.
template <class X>
concept output = std::is_lvalue_reference_v<X> || refers<std::remove_cvref_t<X>>;

/// Rejects operands that end with the call if other ranks may read them after it.
template <bool Lasts, class... Options>
[[nodiscard]] consteval bool require_lasting() {
    constexpr bool lasts = Lasts || !(is_end_mode<std::remove_cvref_t<Options>> || ...);
    static_assert(
        lasts,
        "allfold: out_sync is for operands that outlive the call, since others may read them later: pass variables");
    return lasts;
}

/// The input of a blocking call. An input that owns its elements lives long enough, temporary or not, and is passed as
/// an lvalue.
template <class In>
[[nodiscard]] constexpr decltype(auto) until_return(std::remove_reference_t<In>& in) noexcept {
    if constexpr (refers<std::remove_cvref_t<In>>)
        return std::forward<In>(in);
    else
        return (in);
}

template <class T>
concept any_option = option<std::remove_cvref_t<T>>;

/// Whether X is a single object, rather than a range, a tensor view or records, and an operand of a collective that
/// does not cut it into one block per rank.
template <class X, class Collective>
concept object_for = std::same_as<element_of<X>, std::remove_cvref_t<X>> &&
                     (Collective::promise.cut == cut_for::schedule || Collective::promise.cut == cut_for::owner);

/// Such an object that the call cannot write, or that is a temporary: the call returns the result instead.
template <class X, class Collective>
concept value_for =
    object_for<X, Collective> && (!std::is_lvalue_reference_v<X> || std::is_const_v<std::remove_reference_t<X>>) &&
    std::constructible_from<std::remove_cvref_t<X>, X>;

/// What an in-place call returns: a single object itself, so that an expression can continue with its value.
template <class X, class Collective>
using object_of = std::conditional_t<object_for<X, Collective>, const std::remove_reference_t<X>&, void>;

/// Rejects a single object in place of the blocks of all ranks.
template <class Collective, class X>
[[nodiscard]] consteval bool require_all_blocks() {
    constexpr contract promise = Collective::promise;
    constexpr bool is_cut = promise.cut == cut_for::ranks || promise.cut == cut_for::pairs;
    constexpr bool has_blocks = !is_cut || promise.rooted || !std::same_as<element_of<X>, std::remove_cvref_t<X>>;
    static_assert(has_blocks,
                  "allfold: in place, this collective works on the blocks of all ranks, but this is a single object: "
                  "pass a range, or an input and an output");
    return has_blocks;
}

/// Whether rank 0 has something to fold, or else an identity to return.
template <class Collective, class Op, class T>
[[nodiscard]] consteval bool require_first_value() {
    constexpr content first = Collective::promise.result(setting{0, 2}, 0);
    constexpr bool exists = first.first != first.last || operator_with_identity<Op, T> ||
                            operator_with_identity<Op, typename state_of<Op, T>::type>;
    static_assert(exists,
                  "allfold: this operator declares no identity, which rank 0 would get: write with_identity(op, e), or "
                  "pass a variable, which rank 0 leaves unchanged");
    return exists;
}

/// Whether F looks like an operator on the elements of X, so that it cannot be meant as data.
template <class F, class X>
concept operation_on = !tensor_view<F> && !element_range<F> && binary_operation<std::remove_cvref_t<F>, element_of<X>>;

template <class X>
inline constexpr bool is_address =
    std::is_pointer_v<std::remove_cvref_t<X>> && !std::is_function_v<std::remove_pointer_t<std::remove_cvref_t<X>>>;

/// Whether X could be an algorithm that does not say so.
template <class X>
inline constexpr bool is_named_value = has_static_name<std::remove_cvref_t<X>> && !algorithm<std::remove_cvref_t<X>>;

/// Rejects pointers: on another rank an address is meaningless, or means something else.
template <class X>
[[nodiscard]] consteval bool require_no_pointer() {
    constexpr bool is_data = !std::is_pointer_v<std::remove_cvref_t<X>>;
    static_assert(is_data,
                  "allfold: this would send an address, not the data it points to: pass a view of the elements, such "
                  "as std::span(pointer, count)");
    return is_data;
}

/// Whether the operator, rather than the argument, is at fault if it does not fold the elements of X.
template <class Op, class X>
[[nodiscard]] consteval bool require_range_of_elements() {
    if constexpr (require_no_pointer<X>()) {
        constexpr bool is_contiguous = require_contiguous<X>();
        constexpr bool is_of_elements = !is_contiguous || !binary_operation<Op, std::remove_cvref_t<X>>;
        static_assert(
            is_of_elements,
            "allfold: this operator folds whole ranges, but a range is folded element by element: make it the only "
            "element of a view, std::span(&range, 1)");
        return is_contiguous && is_of_elements;
    }
    return false;
}

/// Whether an operator folds the elements of an argument; if not, a one-line compile error says what to write. If it
/// does, the operator is not probed with any other type, because an operator with a deduced return type need not
/// compile there.
template <class Op, class X>
[[nodiscard]] consteval bool require_operator() {
    using element = typename state_of<Op, element_of<X>>::type;
    if constexpr (!binary_operation<Op, element>) {
        if constexpr (require_range_of_elements<Op, X>())
            return require_associative<Op, element>();
        else
            return false;
    } else {
        return require_associative<Op, element>();
    }
}

/// How collectives fold an argument that is not exactly one operand: specialised for `images` and `distributed` with
/// `in_place<V, Collective>(comm, x, op, options...)` and `out_of_place<V, Collective>(comm, in, out, op, options...)`,
/// where V is a verb.
template <class X>
struct custom_path {
    static constexpr bool exists = false;
};
template <class X>
inline constexpr bool has_custom_path = custom_path<std::remove_cvref_t<X>>::exists;

/// Reports in one line what is wrong with arguments that fit no form of a collective.
template <bool Folds, class X, class... Rest>
consteval void explain_arguments() {
    constexpr bool fits_no_form = sizeof(X) == 0;
    if constexpr (is_address<X> || (is_address<Rest> || ...))
        static_cast<void>((require_no_pointer<X>() && ... && require_no_pointer<Rest>()));
    else if constexpr ((is_named_value<Rest> || ...))
        static_assert(fits_no_form,
                      "allfold: this type has a name and members, and counts as data: if it is an algorithm, let it "
                      "declare `static constexpr bool has_parameters = true`");
    else if constexpr (Folds && sizeof...(Rest) == 0)
        static_assert(fits_no_form, "allfold: this collective needs an operator: pass one, such as sum{}");
    else
        static_assert(fits_no_form,
                      "allfold: unknown argument: after the data and the operator come options: root{}, shift{}, "
                      "destinations{}, window{}, deadline{}, a partition, axis{}, shards{}, an order level such as "
                      "order::tree, in_sync, out_sync, delegate::never, an algorithm such as ring{}; an output must be "
                      "a variable or a view");
}

/// Rejects options that contradict each other or mean nothing to the collective.
template <class Collective, class... Options>
[[nodiscard]] consteval bool require_options() {
    constexpr contract promise = Collective::promise;
    constexpr bool once = all_different<Options...>;
    static_assert(once,
                  "allfold: two options of the same kind in one call: pass one algorithm, one window, one order level");
    constexpr bool permutation = promise.cut == cut_for::owner;
    constexpr bool has_root = (promise.rooted && !permutation) || !has_option<root, Options...>;
    static_assert(has_root, "allfold: this collective has no root{}: reduce, broadcast, gather and scatter have one");
    constexpr bool permutes = permutation || !(has_option<shift, Options...> || has_option<destinations, Options...>);
    static_assert(permutes, "allfold: shift{} and destinations{} are for permute");
    constexpr bool is_cut =
        promise.cut == cut_for::ranks || promise.cut == cut_for::pairs || !has_option<partition, Options...>;
    static_assert(is_cut,
                  "allfold: a partition is for collectives that cut an operand into a block for each rank: "
                  "reduce_scatter, gather, scatter, all_gather and all_to_all");
    constexpr bool is_cut_twice = promise.cut == cut_for::pairs ||
                                  !(has_option<input_blocks, Options...> || has_option<output_blocks, Options...>);
    static_assert(is_cut_twice, "allfold: input_blocks{} and output_blocks{} are for all_to_all: pass a partition");
    return once && has_root && permutes && is_cut && is_cut_twice;
}

template <class Comm>
concept constant_communicator =
    std::is_const_v<std::remove_reference_t<Comm>> && communicator<std::remove_cvref_t<Comm>>;

/// The verbs of calls that do not begin with a communicator that may be used: a one-line error says what to pass.
class verbs_without_communicator {
  public:
    template <class X, class... Rest>
        requires(!communicator<std::remove_cvref_t<X>>)
    void operator()(X&&, Rest&&...) const {
        explain<std::remove_cvref_t<X>>();
    }
    template <class X, class... Rest>
        requires(!communicator<std::remove_cvref_t<X>>)
    operation start(X&&, Rest&&...) const {
        explain<std::remove_cvref_t<X>>();
        return {};
    }
    template <class X, class... Rest>
        requires(!communicator<std::remove_cvref_t<X>>)
    persistent prepare(X&&, Rest&&...) const {
        explain<std::remove_cvref_t<X>>();
        return {};
    }

    template <class Comm, class... Rest>
        requires constant_communicator<Comm>
    void operator()(Comm&&, Rest&&...) const {
        explain_constant<Comm>();
    }
    template <class Comm, class... Rest>
        requires constant_communicator<Comm>
    operation start(Comm&&, Rest&&...) const {
        explain_constant<Comm>();
        return {};
    }
    template <class Comm, class... Rest>
        requires constant_communicator<Comm>
    persistent prepare(Comm&&, Rest&&...) const {
        explain_constant<Comm>();
        return {};
    }

  private:
    template <class Comm>
    static consteval void explain_constant() {
        constexpr bool is_variable = sizeof(Comm) == 0;
        static_assert(is_variable, "allfold: the communicator must not be const: every call changes its state");
    }
    template <class X>
    static consteval void explain() {
        constexpr bool is_communicator = communicator<X>;
        static_assert(is_communicator,
                      "allfold: the first argument must be the communicator: pass *team for a team, *pointer for a "
                      "pointer to one");
    }
};

/// The plan of a call on ranks of which little more than the number is known.
template <class Collective, reach Reach, class Element, class Op, class... Options>
[[nodiscard]] plan make_plan([[maybe_unused]] const Op& op, const setting& where, std::size_t bytes, int processors,
                             const Options&... options) {
    const call_options understood(options...);
    arguments_given call{Collective::promise.name, where, true, 0, 0, &understood};
    if (where.size < 1) call.reject(errc::bad_argument, {"a plan for ", where.size, " ranks"});
    call.where = understood.setting_of(0, where.size, where.group);
    call.require_root();
    call.require_permutation();
    std::shared_ptr<const std::vector<int>> list;
    if (understood.destinations != nullptr) {
        list = std::make_shared<const std::vector<int>>(understood.destinations->ranks());
        call.where.destinations = list->data();
    }
    using state = typename state_of<Op, Element>::type;
    if constexpr (fits<Collective, Reach, algorithm_among<Options...>, Op, state, order_among<Options...>>()) {
        request what = make_request<Collective, Reach, Op, state>(options...);
        if constexpr (says_commutative<Op, state>) ask_operator<state, order_among<Options...>>(what, op, where.rank);
        problem p{where.size, bytes, processors, what.level};
        if constexpr (!std::same_as<state, Element> && !is_row<Element>) {
            p.bytes = bytes / sizeof(Element) * sizeof(state);
            p.short_values = fold_of_values<Op, Element>::exists && are_short(sizeof(Element), sizeof(state));
        }
        const char* why = nullptr;
        const any_schedule chosen = schedule_for(what, call, p, &why);
        if (understood.check != nullptr) understood.check(Collective::promise, chosen);
        return {Collective::promise, chosen, why, chosen.folds_once ? bytes : p.bytes, std::move(list)};
    }
}

/// Whether a call may be remembered as far as lifted elements are concerned: their states must fit into the memory that
/// remembered calls have for them, unless elements are folded as they are.
template <class Op, class Element>
[[nodiscard]] bool fits_in_states(const any_schedule& chosen, std::size_t bytes) {
    using state = typename state_of<Op, Element>::type;
    if constexpr (std::same_as<state, Element>)
        return true;
    else if constexpr (is_row<Element>)
        return false;
    else
        return (chosen.folds_once && fold_of_values<Op, Element>::exists) ||
               bytes / sizeof(Element) * sizeof(state) <= max_state_bytes;
}

/// Adds the reason to the plan if the call is one that the communicator will remember, unless it depends on how its
/// blocks are cut.
template <class Collective, class Comm, class... Options>
[[nodiscard]] plan with_short_path(plan own, const Comm& comm, std::size_t bytes) {
    constexpr bool may_be =
        ((short_option<Options> || std::same_as<Options, deadline>) && ...) && !(says_blocks<Options> || ...);
    if constexpr (Comm::has_short_path && may_be) {
        const any_schedule mine = own.schedule(comm.rank());
        const int cut = mine.blocks();
        const partition blocks = partition::even(bytes, std::max(1, cut));
        const std::size_t largest = blocks.largest();
        if (Collective::promise.cut != cut_for::pairs &&
            detail::both_store(comm, mine, Collective::promise.folds, largest))
            return own;
        const bool lent = comm.lends(largest, true);
        std::size_t copied = 0;
        if (lent && Comm::shares_memory && Collective::promise.cut != cut_for::owner)
            copied = copied_window(mine, Collective::promise.folds, comm.processors(), largest);
        else if (lent && Comm::shares_memory && copies_whole(comm.size(), comm.processors(), largest))
            copied = largest;
        if (copied > 0) own.add_reason("; between two ranks, through memory of the transport");
        if (would_be_short(mine, blocks, !lent || copied == largest ? largest : 0))
            own.add_reason("; remembered: repeated calls take the short path");
    }
    return own;
}

/// A collective and the arguments of a call to it: see collective/together.hpp.
template <class Collective, class... Arguments>
class bound_call;

/// The function object behind the name of a collective that folds. Arguments are `(comm, x, op, options...)` in place,
/// or `(comm, in, out, op, options...)`; options may come in any order.
template <class Collective>
class folding_verbs : public verbs_without_communicator {
  public:
    /// Runs the collective and returns when this rank's part in it is complete. Returns x if that is a single object.
    template <communicator Comm, class X, class Op, any_option... Options>
        requires(!value_for<X, Collective>)
    object_of<X, Collective> operator()(Comm& comm, X&& x, Op&& op, Options&&... options) const {
        in_place<verb::call>(comm, std::forward<X>(x), op, options...);
        if constexpr (!std::is_void_v<object_of<X, Collective>>) return x;
    }
    /// The same for a value; x is left unchanged.
    template <communicator Comm, value_for<Collective> X, class Op, any_option... Options>
    [[nodiscard]] std::remove_cvref_t<X> operator()(Comm& comm, X&& x, Op&& op, Options&&... options) const {
        using value = std::remove_cvref_t<X>;
        using operation = std::remove_cvref_t<Op>;
        value result = detail::make_or_abort(comm, [&] { return value(std::forward<X>(x)); });
        if constexpr (require_lasting<false, Options...>() &&
                      (!associative_operator<operation, typename state_of<operation, value>::type> ||
                       require_first_value<Collective, operation, value>()))
            in_place<verb::call>(comm, result, op, options...);
        return result;
    }
    template <communicator Comm, class In, output Out, class Op, any_option... Options>
        requires(!any_option<Op> && !operation_on<Out, In>)
    void operator()(Comm& comm, In&& in, Out&& out, Op&& op, Options&&... options) const {
        if constexpr (require_lasting<std::is_lvalue_reference_v<In> || refers<std::remove_cvref_t<In>>, Options...>())
            out_of_place<verb::call>(comm, until_return<In>(in), std::forward<Out>(out), op, options...);
    }

    /// Starts the collective; the operation completes it.
    template <communicator Comm, class X, class Op, any_option... Options>
    [[nodiscard]] operation start(Comm& comm, X&& x, Op&& op, Options&&... options) const {
        return in_place<verb::start>(comm, std::forward<X>(x), op, options...);
    }
    template <communicator Comm, class In, output Out, class Op, any_option... Options>
        requires(!any_option<Op> && !operation_on<Out, In>)
    [[nodiscard]] operation start(Comm& comm, In&& in, Out&& out, Op&& op, Options&&... options) const {
        return out_of_place<verb::start>(comm, std::forward<In>(in), std::forward<Out>(out), op, options...);
    }

    /// Prepares the collective, which may then be started any number of times on the same memory.
    template <communicator Comm, class X, class Op, any_option... Options>
    [[nodiscard]] persistent prepare(Comm& comm, X&& x, Op&& op, Options&&... options) const {
        return in_place<verb::prepare>(comm, std::forward<X>(x), op, options...);
    }
    template <communicator Comm, class In, output Out, class Op, any_option... Options>
        requires(!any_option<Op> && !operation_on<Out, In>)
    [[nodiscard]] persistent prepare(Comm& comm, In&& in, Out&& out, Op&& op, Options&&... options) const {
        return out_of_place<verb::prepare>(comm, std::forward<In>(in), std::forward<Out>(out), op, options...);
    }

    /// The same as a part of `together`, which may be used as long as the variables among its arguments live.
    template <class... Arguments>
    [[nodiscard]] auto with(Arguments&&... arguments) const {
        return bound_call<Collective, Arguments...>(std::forward<Arguments>(arguments)...);
    }
    /// Such a part as the communicator remembers it; nothing if it does not.
    template <communicator Comm, class X, class Op, any_option... Options>
        requires(!has_custom_path<X>)
    [[nodiscard]] recalled_call recall(Comm& comm, X& x, const Op& op, const Options&... options) const {
        return recall_if_short<Collective>(comm, op, operands_given<absent, X&>{x}, options...);
    }
    template <communicator Comm, class In, class Out, class Op, any_option... Options>
        requires(!any_option<Op> && !operation_on<Out, In> && !has_custom_path<In>)
    [[nodiscard]] recalled_call recall(Comm& comm, In& in, Out& out, const Op& op, const Options&... options) const {
        return recall_if_short<Collective>(comm, op, operands_given<In&, Out&>{in, out}, options...);
    }

    // Catches calls that fit none of these forms.
    using verbs_without_communicator::operator(), verbs_without_communicator::start,
        verbs_without_communicator::prepare;
    template <communicator Comm, class... Rest>
    void operator()(Comm&, Rest&&...) const {
        explain_arguments<true, Rest...>();
    }
    template <communicator Comm, class... Rest>
    operation start(Comm&, Rest&&...) const {
        explain_arguments<true, Rest...>();
        return {};
    }
    template <communicator Comm, class... Rest>
    persistent prepare(Comm&, Rest&&...) const {
        explain_arguments<true, Rest...>();
        return {};
    }

    /// The schedule that would run on `size` ranks that share memory, for an operand of `bytes` bytes on each of them.
    /// The laws are those of the operator on `Element`, or on the state that it lifts an `Element` to. Name `Element`
    /// if it is not float; for records it is `row<float, float>`.
    template <class Element = float, class Op, option... Options>
        requires(!option<Op>)
    [[nodiscard]] allfold::plan plan(int size, std::size_t bytes, const Op& op, const Options&... options) const {
        return make_plan<Collective, reach::memory, Element>(op, {0, size}, bytes, usable_processors(), options...);
    }
    /// What would run on the ranks of a communicator: a schedule over its transport, or the transport's own collective.
    template <class Element = float, communicator Comm, class Op, option... Options>
        requires(!option<Op>)
    [[nodiscard]] allfold::plan plan(const Comm& comm, std::size_t bytes, const Op& op,
                                     const Options&... options) const {
        const setting where{0, comm.size(), 0, comm.group()};
        allfold::plan own =
            make_plan<Collective, reach_of<Comm>, Element>(op, where, bytes, comm.processors(), options...);
        if constexpr (!is_row<Element> && std::same_as<algorithm_among<Options...>, automatic>) {
            constexpr const char* name = Collective::promise.name;
            if (level_of<Op, Element, order_among<Options...>>() == order::any &&
                Comm::template native<Op, Element>(name) != nullptr)
                if (const char* const why = engine<Comm>::reason_to_delegate(comm, name, bytes, bytes / sizeof(Element),
                                                                             call_options(options...)))
                    return own.delegated_to(Comm::native_name(name), why);
        }
        if (!fits_in_states<Op, Element>(own.schedule(comm.rank()), bytes)) return own;
        return with_short_path<Collective, Comm, Options...>(std::move(own), comm, bytes);
    }

  private:
    template <verb V, class Comm, class X, class Op, class... Options>
    static outcome_of<V> in_place(Comm& comm, X&& x, const Op& op, const Options&... options) {
        if constexpr (has_custom_path<X>) {
            if constexpr (require_options<Collective, Options...>() && require_operator<Op, X>())
                return custom_path<std::remove_cvref_t<X>>::template in_place<V, Collective>(comm, x, op, options...);
            else
                return outcome_of<V>();
        } else if constexpr (require_options<Collective, Options...>() && require_operator<Op, X>() &&
                             require_all_blocks<Collective, X>())
            return issue_in_place<V, Collective>(comm, op, std::forward<X>(x), options...);
        else if constexpr (V != verb::call)
            return {};
    }
    template <verb V, class Comm, class In, class Out, class Op, class... Options>
    static outcome_of<V> out_of_place(Comm& comm, In&& in, Out&& out, const Op& op, const Options&... options) {
        if constexpr (has_custom_path<In>) {
            if constexpr (require_options<Collective, Options...>() && require_operator<Op, In>())
                return custom_path<std::remove_cvref_t<In>>::template out_of_place<V, Collective>(comm, in, out, op,
                                                                                                  options...);
            else
                return outcome_of<V>();
        } else if constexpr (has_custom_path<Out>) {
            constexpr bool is_one_operand = sizeof(Out) == 0;
            static_assert(is_one_operand,
                          "allfold: if the output is images or a distributed array, the input must be too");
            return outcome_of<V>();
        } else if constexpr (require_options<Collective, Options...>() && require_operator<Op, In>())
            return issue_out_of_place<V, Collective>(comm, op, std::forward<In>(in), std::forward<Out>(out),
                                                     options...);
        else if constexpr (V != verb::call)
            return {};
    }
};

/// The same, without the operator, for collectives that only move elements.
template <class Collective>
class moving_verbs : public verbs_without_communicator {
  public:
    template <communicator Comm, class X, any_option... Options>
        requires(!any_option<X> && !value_for<X, Collective>)
    object_of<X, Collective> operator()(Comm& comm, X&& x, Options&&... options) const {
        in_place<verb::call>(comm, std::forward<X>(x), options...);
        if constexpr (!std::is_void_v<object_of<X, Collective>>) return x;
    }
    template <communicator Comm, value_for<Collective> X, any_option... Options>
        requires(!any_option<X>)
    [[nodiscard]] std::remove_cvref_t<X> operator()(Comm& comm, X&& x, Options&&... options) const {
        auto result = detail::make_or_abort(comm, [&] { return std::remove_cvref_t<X>(std::forward<X>(x)); });
        if constexpr (require_lasting<false, Options...>()) in_place<verb::call>(comm, result, options...);
        return result;
    }
    template <communicator Comm, class In, output Out, any_option... Options>
        requires(!any_option<Out>)
    void operator()(Comm& comm, In&& in, Out&& out, Options&&... options) const {
        if constexpr (require_lasting<std::is_lvalue_reference_v<In> || refers<std::remove_cvref_t<In>>, Options...>())
            out_of_place<verb::call>(comm, until_return<In>(in), std::forward<Out>(out), options...);
    }

    template <communicator Comm, class X, any_option... Options>
        requires(!any_option<X>)
    [[nodiscard]] operation start(Comm& comm, X&& x, Options&&... options) const {
        return in_place<verb::start>(comm, std::forward<X>(x), options...);
    }
    template <communicator Comm, class In, output Out, any_option... Options>
        requires(!any_option<Out>)
    [[nodiscard]] operation start(Comm& comm, In&& in, Out&& out, Options&&... options) const {
        return out_of_place<verb::start>(comm, std::forward<In>(in), std::forward<Out>(out), options...);
    }

    template <communicator Comm, class X, any_option... Options>
        requires(!any_option<X>)
    [[nodiscard]] persistent prepare(Comm& comm, X&& x, Options&&... options) const {
        return in_place<verb::prepare>(comm, std::forward<X>(x), options...);
    }
    template <communicator Comm, class In, output Out, any_option... Options>
        requires(!any_option<Out>)
    [[nodiscard]] persistent prepare(Comm& comm, In&& in, Out&& out, Options&&... options) const {
        return out_of_place<verb::prepare>(comm, std::forward<In>(in), std::forward<Out>(out), options...);
    }

    /// The same as a part of `together`, which may be used as long as the variables among its arguments live.
    template <class... Arguments>
    [[nodiscard]] auto with(Arguments&&... arguments) const {
        return bound_call<Collective, Arguments...>(std::forward<Arguments>(arguments)...);
    }
    /// Such a part as the communicator remembers it; nothing if it does not.
    template <communicator Comm, class X, any_option... Options>
        requires(!any_option<X>)
    [[nodiscard]] recalled_call recall(Comm& comm, X& x, const Options&... options) const {
        return recall_if_short<Collective>(comm, no_fold{}, operands_given<absent, X&>{x}, options...);
    }
    template <communicator Comm, class In, class Out, any_option... Options>
        requires(!any_option<Out>)
    [[nodiscard]] recalled_call recall(Comm& comm, In& in, Out& out, const Options&... options) const {
        return recall_if_short<Collective>(comm, no_fold{}, operands_given<In&, Out&>{in, out}, options...);
    }

    // Catches calls that fit none of these forms.
    using verbs_without_communicator::operator(), verbs_without_communicator::start,
        verbs_without_communicator::prepare;
    template <communicator Comm, class... Rest>
    void operator()(Comm&, Rest&&...) const {
        explain_arguments<false, Comm, Rest...>();
    }
    template <communicator Comm, class... Rest>
    operation start(Comm&, Rest&&...) const {
        explain_arguments<false, Comm, Rest...>();
        return {};
    }
    template <communicator Comm, class... Rest>
    persistent prepare(Comm&, Rest&&...) const {
        explain_arguments<false, Comm, Rest...>();
        return {};
    }

    /// The schedule that would run on `size` ranks that share memory, for an operand of `bytes` bytes on each of them.
    template <option... Options>
    [[nodiscard]] allfold::plan plan(int size, std::size_t bytes, const Options&... options) const {
        return make_plan<Collective, reach::memory, std::byte>(no_fold{}, {0, size}, bytes, usable_processors(),
                                                               options...);
    }
    /// What would run on the ranks of a communicator.
    template <communicator Comm, option... Options>
    [[nodiscard]] allfold::plan plan(const Comm& comm, std::size_t bytes, const Options&... options) const {
        constexpr bool is_flat = Comm::has_groups && goes_flat<Collective, Options...>;
        constexpr reach how = is_flat ? reach::messages : reach_of<Comm>;
        const setting where{0, comm.size(), 0, is_flat ? 1 : comm.group()};
        return with_short_path<Collective, Comm, Options...>(
            make_plan<Collective, how, std::byte>(no_fold{}, where, bytes, comm.processors(), options...), comm, bytes);
    }

  private:
    template <verb V, class Comm, class X, class... Options>
    static outcome_of<V> in_place(Comm& comm, X&& x, const Options&... options) {
        if constexpr (require_options<Collective, Options...>() && require_data<X>() &&
                      require_all_blocks<Collective, X>())
            return issue_in_place<V, Collective>(comm, no_fold{}, std::forward<X>(x), options...);
        else if constexpr (V != verb::call)
            return {};
    }
    template <verb V, class Comm, class In, class Out, class... Options>
    static outcome_of<V> out_of_place(Comm& comm, In&& in, Out&& out, const Options&... options) {
        if constexpr (require_options<Collective, Options...>() && require_data<In>() && require_data<Out>() &&
                      require_blocks<cuts_input<Collective>, In>() && require_blocks<cuts_output<Collective>, Out>())
            return issue_out_of_place<V, Collective>(comm, no_fold{}, std::forward<In>(in), std::forward<Out>(out),
                                                     options...);
        else if constexpr (V != verb::call)
            return {};
    }
    template <class X>
    [[nodiscard]] static consteval bool require_data() {
        constexpr bool is_data = require_no_pointer<X>();
        constexpr bool is_operand = !has_custom_path<X>;
        static_assert(is_operand, "allfold: images and distributed arrays are for collectives that fold");
        return is_data && is_operand;
    }
    /// What is cut into blocks cannot be a single object.
    template <bool IsCut, class X>
    [[nodiscard]] static consteval bool require_blocks() {
        if constexpr (IsCut)
            return require_contiguous<X>();
        else
            return true;
    }
};

}  // namespace allfold::detail
