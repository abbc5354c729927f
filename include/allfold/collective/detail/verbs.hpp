// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "allfold/algebra/diagnose.hpp"
#include "allfold/collective/detail/arrangement.hpp"
#include "allfold/collective/plan.hpp"
#include "allfold/engine/compiled.hpp"
#include "allfold/engine/short_arguments.hpp"
#include "allfold/transport/detail/processors.hpp"

/// @file
/// The verbs that every collective has: call, `start`, `prepare` and `plan`. A collective derives from `folding_verbs`
/// or `moving_verbs`, and says
///
/// 1. `static constexpr contract promise`;
/// 2. `template <class A> using schedule_in`: which nested type of an algorithm performs it;
/// 3. `static shape lay_out(const arguments_given&)`: which rows its arguments hold, after checking them;
/// 4. `in_memory`, `by_messages` and `in_levels`: the candidates of `choose`, where all ranks share memory, where they
///    exchange messages, and where groups of them share memory.

namespace allfold::detail {

/// The order level of a call: what the caller asked for; else rank order unless the operator is commutative.
template <class Op, class Element, class OrderOption>
[[nodiscard]] constexpr order level_of() noexcept {
    if constexpr (!std::is_void_v<OrderOption>)
        return OrderOption{};
    else if constexpr (std::same_as<Op, no_fold> || commutative_operator<Op, Element>)
        return order::any;
    else
        return order::rank;
}

template <class Comm>
inline constexpr reach reach_of = Comm::has_groups      ? reach::levels
                                  : Comm::shares_memory ? reach::memory
                                                        : reach::messages;

/// The candidates of a collective.
template <class Collective, reach Reach>
[[nodiscard]] constexpr std::span<const candidate> candidates_of() noexcept {
    if constexpr (Reach == reach::memory)
        return Collective::in_memory;
    else if constexpr (Reach == reach::messages)
        return Collective::by_messages;
    else
        return Collective::in_levels;
}

/// Whether some candidate gives the order.
[[nodiscard]] constexpr bool some_keeps(std::span<const candidate> candidates, order level) noexcept {
    for (const candidate& each : candidates)
        if (each.schedule->keeps >= level) return true;
    return false;
}

template <class Algorithm, class Collective>
concept algorithm_for = requires { typename Collective::template schedule_in<Algorithm>; };

/// Whether an algorithm, or some candidate, gives what a call asks for; where not, one line of the compiler says what
/// to write.
template <class Collective, reach Reach, class Algorithm, class Op, class Element, class OrderOption>
[[nodiscard]] consteval bool fits() {
    constexpr order level = level_of<Op, Element, OrderOption>();
    if constexpr (std::same_as<Algorithm, automatic>) {
        constexpr bool enough = !Collective::promise.folds || some_keeps(candidates_of<Collective, Reach>(), level);
        static_assert(enough,
                      "allfold: no schedule of this collective gives the order level that the call asks for between "
                      "processes of several threads: ask for order::rank, or for less");
        return enough;
    } else {
        constexpr bool has = algorithm_for<Algorithm, Collective>;
        static_assert(has,
                      "allfold: this algorithm has no schedule for this collective (it has those of its nested types): "
                      "name another one, or none");
        if constexpr (has) {
            using chosen = typename Collective::template schedule_in<Algorithm>;
            constexpr bool reaches = Reach != reach::levels || grouped_schedule<chosen>;
            static_assert(reaches,
                          "allfold: between processes only their first threads talk: name two_level, "
                          "two_level_halving or no algorithm");
            if constexpr (!reaches || !Collective::promise.folds) {
                return reaches;
            } else if constexpr (chosen::keeps == order::any && !commutative_operator<Op, Element>) {
                return require_commutative<Op, Element>();
            } else {
                constexpr bool enough = chosen::keeps >= level;
                static_assert(enough,
                              "allfold: this schedule cannot give the order level that the call asks for: see `keeps` "
                              "of the schedule, or name none and let allfold choose");
                return enough;
            }
        }
        return false;
    }
}

/// Whether a transport can carry elements; where not, one line of the compiler says what to write.
template <class Comm, class Element>
[[nodiscard]] consteval bool require_carried() {
    using every = every_column<typename columns_of<Element>::types>;
    if constexpr (Comm::shares_memory) {
        return true;
    } else if constexpr (!every::copyable) {
        constexpr bool carried = column_count<Element> > 1 || serializable<column_type<Element, 0>>;
        static_assert(carried,
                      "allfold: ranks of this transport share no memory, and this element type is not trivially "
                      "copyable: specialise allfold::serializer for it");
        return carried;
    } else {
        constexpr bool aligned = every::alignment <= 64;
        static_assert(aligned,
                      "allfold: ranks of this transport share no memory, and it aligns elements to at most 64 "
                      "bytes: this type asks for more");
        return aligned;
    }
}

enum class verb { call, start, prepare };
template <verb V>
using outcome_of =
    std::conditional_t<V == verb::call, void, std::conditional_t<V == verb::start, operation, persistent>>;

/// A value that a caller may hand in as an output: something that refers to its elements, or a variable.
template <class X>
concept output = std::is_lvalue_reference_v<X> || refers<std::remove_cvref_t<X>>;

template <class T>
concept any_option = option<std::remove_cvref_t<T>>;

/// Whether X is a single object, rather than a range, a tensor view or records, and the operand of a collective, which
/// does not cut it into blocks for ranks.
template <class X, class Collective>
concept object_for = std::same_as<element_of<X>, std::remove_cvref_t<X>> &&
                     (Collective::promise.cut == cut_for::schedule || Collective::promise.cut == cut_for::owner);

/// Such an object that a call must not write, or that would be gone: the call returns what becomes of it.
template <class X, class Collective>
concept value_for =
    object_for<X, Collective> && (!std::is_lvalue_reference_v<X> || std::is_const_v<std::remove_reference_t<X>>) &&
    std::constructible_from<std::remove_cvref_t<X>, X>;

/// What a call in place returns: a single object, so that a line may go on with its value.
template <class X, class Collective>
using object_of = std::conditional_t<object_for<X, Collective>, const std::remove_reference_t<X>&, void>;

/// Whether the first rank has something to fold, or else an identity to return.
template <class Collective, class Op, class T>
[[nodiscard]] consteval bool require_first_value() {
    constexpr content first = Collective::promise.result(setting{0, 2}, 0);
    constexpr bool exists = first.first != first.last || operator_with_identity<Op, T> ||
                            operator_with_identity<Op, typename state_of<Op, T>::type>;
    static_assert(exists,
                  "allfold: this operator declares no identity, which rank 0 is to get: write with_identity(op, e), or "
                  "pass a variable, which rank 0 keeps");
    return exists;
}

/// Whether F looks like an operator on what X holds, so that it cannot be meant as data.
template <class F, class X>
concept operation_on = !tensor_view<F> && !element_range<F> && binary_operation<std::remove_cvref_t<F>, element_of<X>>;

/// Whether an operator folds the elements of an argument; where not, one line of the compiler says what to write.
template <class Op, class X>
[[nodiscard]] consteval bool require_operator() {
    using element = typename state_of<Op, element_of<X>>::type;
    constexpr bool is_of_elements = binary_operation<Op, element> || !binary_operation<Op, std::remove_cvref_t<X>>;
    static_assert(
        is_of_elements,
        "allfold: this operator folds whole ranges, and a range is folded element by element: make it the one "
        "element of a view, std::span(&range, 1)");
    if constexpr (is_of_elements)
        return require_associative<Op, element>();
    else
        return false;
}

template <class Collective, class Option>
void name_algorithm([[maybe_unused]] request& what, [[maybe_unused]] const Option& option) {
    if constexpr (algorithm<Option>) {
        what.named = &maker_of<typename Collective::template schedule_in<Option>, Option>;
        what.algorithm = &option;
        what.algorithm_hash = hash_of_value(option);
    }
}

/// All that a request says of types.
template <class Collective, reach Reach, class Op, class Element, class... Options>
[[nodiscard]] request make_request(const Options&... options) {
    using algorithm_type = algorithm_among<Options...>;
    request what{{&Collective::promise, &Collective::lay_out, candidates_of<Collective, Reach>()},
                 nullptr,
                 nullptr,
                 0,
                 algorithm_type::name,
                 level_of<Op, Element, order_among<Options...>>(),
                 call_options(options...),
                 type_name<Element>,
                 type_name<Op>,
                 hash_of_types<Collective, Element, Op, algorithm_type>()};
    (name_algorithm<Collective>(what, options), ...);
    return what;
}

/// The transport's own collective for a call, where there is one that may do it.
template <class Comm, class Collective, class Bound, class Algorithm>
[[nodiscard]] constexpr typename Comm::native_function native_for(order level) noexcept {
    if constexpr (Collective::promise.folds && std::same_as<Algorithm, automatic> &&
                  column_count<typename Bound::state> == 1 && !Bound::has_lift)
        if (level == order::any) {
            constexpr auto own =
                Comm::template native<typename Bound::operation, typename Bound::state>(Collective::promise.name);
            return own;
        }
    return nullptr;
}

/// The address tells calls of these types from all others.
template <class Collective, class Op, class Element, class Order>
inline constexpr int types_of_call = 0;

template <class Option>
inline constexpr bool is_permutation = std::same_as<Option, shift> || std::same_as<Option, destinations>;

/// What a call may say that is remembered.
template <class Option>
inline constexpr bool short_option =
    std::same_as<Option, root> || std::same_as<Option, delegate> || is_order<Option> || is_permutation<Option>;

/// Whether calls of these types may be remembered.
template <class Comm, class Op, class In, class Out, class... Options>
inline constexpr bool may_be_remembered =
    Comm::has_short_way && may_be_short<Op, In, Out> && (short_option<Options> && ...);

/// Which permutation a call names, if it may be remembered; a list that is none is known nowhere.
[[nodiscard]] inline bool find_permutation(const call_options& options, int size, std::uint64_t& mark) noexcept {
    const auto is_rank = [size](int r) { return r >= 0 && r < size; };
    if (size > short_program::most_ranks) return false;
    if (options.destinations != nullptr) {
        const std::vector<int>& to = options.destinations->ranks();
        if (to.size() != static_cast<std::size_t>(size) || !std::ranges::all_of(to, is_rank)) return false;
    }
    mark = mark_of(options.setting_of(0, size, 1));
    return true;
}

/// Tells the call from others in `key`; false where the engine has to look at its arguments.
template <class Collective, class Used, class... Options>
[[nodiscard]] bool find_key(const Used& data, [[maybe_unused]] int size, call_key& key, const Options&... options) {
    if (!data.are_plain()) return false;
    const call_options understood(options...);
    key = data.key(&types_of_call<Collective, typename Used::operation, typename Used::state, order_among<Options...>>,
                   understood);
    if constexpr ((is_permutation<Options> || ...))
        if (!find_permutation(understood, size, key.permutation)) {
            key.types = nullptr;
            return false;
        }
    return true;
}
/// Runs a call that the communicator remembers; false where it does not, and the engine has to. `key`: to remember it.
template <class Collective, class In, class Out, class Comm, class Op, class Data, class... Options>
[[nodiscard]] bool run_remembered(Comm& comm, const Op& op, Data bind, call_key& key, const Options&... options) {
    if (comm.background().is_running() || background::in_flight()) return false;
    using used = short_arguments<Op, In, Out>;
    const used data = bind([](auto&... x) { return used(x...); });
    return find_key<Collective>(data, comm.size(), key, options...) && data.run(comm, op, key);
}
/// The same in the background: null where the engine has to.
template <class Collective, class In, class Out, class Comm, class Op, class Data, class... Options>
[[nodiscard]] std::unique_ptr<pending> prepare_remembered(Comm& comm, const Op& op, Data bind, call_key& key,
                                                          const Options&... options) {
    if (comm.background().is_running()) return nullptr;
    using used = short_arguments<Op, In, Out>;
    bind([](auto&... x) { used::require_retained(x...); });
    const used data = bind([](auto&... x) { return used(x...); });
    return find_key<Collective>(data, comm.size(), key, options...) ? data.prepare(comm, op, key) : nullptr;
}

template <verb V>
[[nodiscard]] outcome_of<V> hand_out(std::unique_ptr<pending> prepared) {
    if constexpr (V == verb::start) prepared->start();
    return outcome_of<V>(std::move(prepared));
}

/// The end of the line for types: arguments are bound, and the engine does what the verb says. A rank that finds its
/// arguments wrong breaks the communicator, so that nobody waits for it.
template <verb V, class Collective, class In, class Out, class Comm, class Op, class Data, class... Options>
outcome_of<V> issue(Comm& comm, const Op& op, Data bind, const Options&... options) {
    using element = typename call_types<Op, In, Out>::state;
    using algorithm_type = algorithm_among<Options...>;
    constexpr reach here = reach_of<Comm>;
    if constexpr (require_arguments<Op, In, Out>() && require_carried<Comm, element>() &&
                  fits<Collective, here, algorithm_type, Op, element, order_among<Options...>>()) {
        using bound = arguments<Op, In, Out>;
        try {
            [[maybe_unused]] call_key key;
            if constexpr (V == verb::call && may_be_remembered<Comm, Op, In, Out, Options...>) {
                if (run_remembered<Collective, In, Out>(comm, op, bind, key, options...)) return;
            } else if constexpr (may_be_remembered<Comm, Op, In, Out, Options...>) {
                if (auto known = prepare_remembered<Collective, In, Out>(comm, op, bind, key, options...))
                    return hand_out<V>(std::move(known));
            }
            request what = make_request<Collective, here, Op, element>(options...);
            if (key.types != nullptr) what.key = &key;
            if constexpr (V == verb::call) {
                auto data = bind([&](auto&... x) { return bound(op, x...); });
                engine<Comm>::run(comm, what, data, native_for<Comm, Collective, bound, algorithm_type>(what.level));
            } else {
                auto data = bind([&](auto&... x) { return std::make_unique<bound>(op, x...); });
                return hand_out<V>(engine<Comm>::prepare(comm, what, std::move(data)));
            }
        } catch (...) {
            give_up(comm);
            throw;
        }
    } else if constexpr (V != verb::call) {
        return {};
    }
}

/// Makes something of arguments: a rank that finds them wrong breaks the communicator, so that nobody waits for it.
template <class Comm, class Make>
auto made_or_given_up(Comm& comm, Make make) {
    try {
        return make();
    } catch (...) {
        give_up(comm);
        throw;
    }
}

/// Calls next(argument, options...) with an argument of a call. One that the collective cuts, and whose blocks do not
/// follow each other, becomes a list of pieces that do; the options say how long they are.
template <class Collective, bool IsInput, class X, class Comm, class Next, class... Options>
decltype(auto) in_block_order(Comm& comm, X&& x, Next next, const Options&... options) {
    constexpr bool is_cut = IsInput ? cuts_input<Collective> : cuts_output<Collective>;
    constexpr bool cuts_both = cuts_input<Collective> && cuts_output<Collective>;
    using axis_of = std::conditional_t<!cuts_both, axis, std::conditional_t<IsInput, split_axis, concat_axis>>;
    using blocks_of =
        std::conditional_t<!cuts_both, partition, std::conditional_t<IsInput, input_blocks, output_blocks>>;
    if constexpr (is_cut && needs_arrangement<X, axis_of, Options...>) {
        constexpr bool may_differ = is_tensors<std::remove_cvref_t<X>> || (std::same_as<Options, partition> || ...) ||
                                    (std::same_as<Options, input_blocks> || ...) ||
                                    (std::same_as<Options, output_blocks> || ...);
        auto made = made_or_given_up(comm, [&] {
            const arrangement_place at{Collective::promise.name, comm.rank(), comm.size()};
            auto all = arrange<axis_of, blocks_of>(at, x, options...);
            if constexpr (cuts_both && !may_differ) require_uniform(at, all, IsInput ? "input" : "output");
            return all;
        });
        const list_mark mark = mark_of_lists(x, find_option<shards>(options...));
        if constexpr (!cuts_both)
            return next(made.list, mark, made.blocks);
        else if constexpr (may_differ)
            return next(made.list, mark, blocks_of{made.blocks});
        else
            return next(made.list, mark);
    } else if constexpr (is_tensors<std::remove_cvref_t<X>> && IsInput && !cuts_output<Collective>) {
        return next(std::forward<X>(x), mark_of_lists(x, nullptr));
    } else {
        return next(std::forward<X>(x));
    }
}

template <class X, class... Options>
inline constexpr bool may_be_arranged = is_tensors<std::remove_cvref_t<X>> || (is_arrangement<Options> || ...);

/// The same as `issue`, of arguments whose blocks may lie anywhere.
template <verb V, class Collective, class X, class Comm, class Op, class... Options>
outcome_of<V> issue_in_place(Comm& comm, const Op& op, X&& x, const Options&... options) {
    if constexpr (!may_be_arranged<X, Options...>)
        return issue<V, Collective, absent, X>(comm, op, [&](auto use) { return use(x); }, options...);
    else if constexpr (require_arrangement<Collective, absent, X, Options...>())
        return in_block_order<Collective, !cuts_output<Collective> || cuts_input<Collective>>(
            comm, std::forward<X>(x),
            [&]<class Arranged>(Arranged&& data, const auto&... more) -> outcome_of<V> {
                return issue<V, Collective, absent, Arranged>(comm, op, [&](auto use) { return use(data); }, options...,
                                                              more...);
            },
            options...);
    else if constexpr (V != verb::call)
        return {};
}
template <verb V, class Collective, class In, class Out, class Comm, class Op, class... Options>
outcome_of<V> issue_out_of_place(Comm& comm, const Op& op, In&& in, Out&& out, const Options&... options) {
    if constexpr (!may_be_arranged<In, Options...> && !may_be_arranged<Out, Options...>) {
        return issue<V, Collective, In, Out>(comm, op, [&](auto use) { return use(in, out); }, options...);
    } else if constexpr (require_arrangement<Collective, In, Out, Options...>()) {
        if constexpr (is_tensors<std::remove_cvref_t<In>> && is_tensors<std::remove_cvref_t<Out>>)
            made_or_given_up(comm, [&] {
                const arrangement_place at{Collective::promise.name, comm.rank(), comm.size()};
                require_shards<Collective>(at, in, out, find_option<shards>(options...));
            });
        return in_block_order<Collective, true>(
            comm, std::forward<In>(in),
            [&]<class ArrangedIn>(ArrangedIn&& from, const auto&... first) -> outcome_of<V> {
                return in_block_order<Collective, false>(
                    comm, std::forward<Out>(out),
                    [&]<class ArrangedOut>(ArrangedOut&& to, const auto&... second) -> outcome_of<V> {
                        return issue<V, Collective, ArrangedIn, ArrangedOut>(
                            comm, op, [&](auto use) { return use(from, to); }, options..., first..., second...);
                    },
                    options...);
            },
            options...);
    } else if constexpr (V != verb::call) {
        return {};
    }
}

/// Says in one line what is wrong with arguments that fit no form of a collective.
template <bool Folds, class X, class... Rest>
consteval void explain_arguments() {
    constexpr bool fits_no_form = sizeof(X) == 0;
    if constexpr (Folds && sizeof...(Rest) == 0)
        static_assert(fits_no_form, "allfold: this collective folds: give it an operator: sum{}, ...");
    else
        static_assert(
            fits_no_form,
            "allfold: unknown argument: after the data and the operator come options: root{}, window{}, "
            "deadline{}, a partition, order::any, order::rank, order::tree, delegate::never, an algorithm such as "
            "ring{}");
}

/// Options that contradict each other do not compile.
template <class... Options>
[[nodiscard]] consteval bool require_different() {
    constexpr bool once = all_different<Options...>;
    static_assert(once,
                  "allfold: two options of one kind in one call: give one algorithm, one window, one order level");
    return once;
}

/// The plan of a call on ranks of which little is known but their number.
template <class Collective, reach Reach, class Op, class Element, class... Options>
[[nodiscard]] plan make_plan(const setting& where, std::size_t bytes, int processors, const Options&... options) {
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
    if constexpr (fits<Collective, Reach, algorithm_among<Options...>, Op, Element, order_among<Options...>>()) {
        const request what = make_request<Collective, Reach, Op, Element>(options...);
        const char* why = nullptr;
        const any_schedule chosen = schedule_for(what, call, {where.size, bytes, processors, what.level}, &why);
        if (understood.check != nullptr) understood.check(Collective::promise, chosen);
        return {Collective::promise, chosen, why, bytes, std::move(list)};
    }
}

/// Says so where a call is one that the communicator will remember.
template <class Collective, class Comm, class... Options>
[[nodiscard]] plan with_short_way(plan own, const Comm& comm, std::size_t bytes) {
    if constexpr (Comm::has_short_way && (short_option<Options> && ...)) {
        const any_schedule mine = own.schedule(comm.rank());
        const int cut = mine.blocks();
        const partition blocks = partition::even(bytes, std::max(1, cut));
        const std::size_t largest = blocks.largest();
        const bool lent = comm.lends(largest, true);
        const bool may_copy = lent && Comm::shares_memory && Collective::promise.cut != cut_for::owner;
        const std::size_t copied =
            may_copy ? copied_window(mine, Collective::promise.folds, comm.processors(), largest) : 0;
        if (copied > 0) own.add_reason("; between two ranks through memory of the transport");
        if (would_be_short(mine, blocks, !lent || copied == largest ? largest : 0))
            own.add_reason("; remembered, and short when it is made again");
    }
    return own;
}

/// The function object behind the name of a collective that folds. Arguments are `(comm, x, op, options...)` in place
/// or
/// `(comm, in, out, op, options...)`; options come in any order.
template <class Collective>
class folding_verbs {
  public:
    /// Runs the collective and returns when this rank's part in it is complete. Returns x where that is a single
    /// object.
    template <communicator Comm, class X, class Op, any_option... Options>
        requires(!value_for<X, Collective>)
    object_of<X, Collective> operator()(Comm& comm, X&& x, Op&& op, Options&&... options) const {
        in_place<verb::call>(comm, std::forward<X>(x), op, options...);
        if constexpr (!std::is_void_v<object_of<X, Collective>>) return x;
    }
    /// The same of a value; x stays as it is.
    template <communicator Comm, value_for<Collective> X, class Op, any_option... Options>
    [[nodiscard]] std::remove_cvref_t<X> operator()(Comm& comm, X&& x, Op&& op, Options&&... options) const {
        using value = std::remove_cvref_t<X>;
        using operation = std::remove_cvref_t<Op>;
        value result(std::forward<X>(x));
        if constexpr (!associative_operator<operation, typename state_of<operation, value>::type> ||
                      require_first_value<Collective, operation, value>())
            in_place<verb::call>(comm, result, op, options...);
        return result;
    }
    template <communicator Comm, class In, output Out, class Op, any_option... Options>
        requires(!any_option<Op> && !operation_on<Out, In>)
    void operator()(Comm& comm, In&& in, Out&& out, Op&& op, Options&&... options) const {
        out_of_place<verb::call>(comm, std::forward<In>(in), std::forward<Out>(out), op, options...);
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

    /// Prepares the collective, to be started again and again with the same memory.
    template <communicator Comm, class X, class Op, any_option... Options>
    [[nodiscard]] persistent prepare(Comm& comm, X&& x, Op&& op, Options&&... options) const {
        return in_place<verb::prepare>(comm, std::forward<X>(x), op, options...);
    }
    template <communicator Comm, class In, output Out, class Op, any_option... Options>
        requires(!any_option<Op> && !operation_on<Out, In>)
    [[nodiscard]] persistent prepare(Comm& comm, In&& in, Out&& out, Op&& op, Options&&... options) const {
        return out_of_place<verb::prepare>(comm, std::forward<In>(in), std::forward<Out>(out), op, options...);
    }

    // What fits none of these forms.
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

    /// The schedule that would run on `size` ranks that share memory, for an operand of `bytes` bytes at each of them.
    /// The laws are those of the operator on `Element`: name it where it is not float, `row<float, float>` of records.
    template <class Element = float, class Op, option... Options>
        requires(!option<Op>)
    [[nodiscard]] allfold::plan plan(int size, std::size_t bytes, const Op&, const Options&... options) const {
        return make_plan<Collective, reach::memory, Op, Element>({0, size}, bytes, usable_processors(), options...);
    }
    /// What would run on the ranks of a communicator: over its transport, or as its own collective.
    template <class Element = float, communicator Comm, class Op, option... Options>
        requires(!option<Op>)
    [[nodiscard]] allfold::plan plan(const Comm& comm, std::size_t bytes, const Op&, const Options&... options) const {
        const setting where{0, comm.size(), 0, comm.group()};
        allfold::plan own =
            make_plan<Collective, reach_of<Comm>, Op, Element>(where, bytes, comm.processors(), options...);
        if constexpr (!is_row<Element> && std::same_as<algorithm_among<Options...>, automatic>) {
            constexpr const char* name = Collective::promise.name;
            if (level_of<Op, Element, order_among<Options...>>() == order::any &&
                Comm::template native<Op, Element>(name) != nullptr)
                if (const char* const why = engine<Comm>::reason_to_delegate(comm, name, bytes, bytes / sizeof(Element),
                                                                             call_options(options...)))
                    return own.delegated_to(Comm::native_name(name), why);
        }
        return with_short_way<Collective, Comm, Options...>(std::move(own), comm, bytes);
    }

  private:
    template <verb V, class Comm, class X, class Op, class... Options>
    static outcome_of<V> in_place(Comm& comm, X&& x, const Op& op, const Options&... options) {
        if constexpr (require_different<Options...>() && require_operator<Op, X>())
            return issue_in_place<V, Collective>(comm, op, std::forward<X>(x), options...);
        else if constexpr (V != verb::call)
            return {};
    }
    template <verb V, class Comm, class In, class Out, class Op, class... Options>
    static outcome_of<V> out_of_place(Comm& comm, In&& in, Out&& out, const Op& op, const Options&... options) {
        if constexpr (require_different<Options...>() && require_operator<Op, In>())
            return issue_out_of_place<V, Collective>(comm, op, std::forward<In>(in), std::forward<Out>(out),
                                                     options...);
        else if constexpr (V != verb::call)
            return {};
    }
};

/// The same for collectives that move elements and fold none: without the operator.
template <class Collective>
class moving_verbs {
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
        std::remove_cvref_t<X> result(std::forward<X>(x));
        in_place<verb::call>(comm, result, options...);
        return result;
    }
    template <communicator Comm, class In, output Out, any_option... Options>
        requires(!any_option<Out>)
    void operator()(Comm& comm, In&& in, Out&& out, Options&&... options) const {
        out_of_place<verb::call>(comm, std::forward<In>(in), std::forward<Out>(out), options...);
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

    // What fits none of these forms.
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

    /// The schedule that would run on `size` ranks that share memory, for an operand of `bytes` bytes at each of them.
    template <option... Options>
    [[nodiscard]] allfold::plan plan(int size, std::size_t bytes, const Options&... options) const {
        return make_plan<Collective, reach::memory, no_fold, std::byte>({0, size}, bytes, usable_processors(),
                                                                        options...);
    }
    /// What would run on the ranks of a communicator.
    template <communicator Comm, option... Options>
    [[nodiscard]] allfold::plan plan(const Comm& comm, std::size_t bytes, const Options&... options) const {
        const setting where{0, comm.size(), 0, comm.group()};
        return with_short_way<Collective, Comm, Options...>(
            make_plan<Collective, reach_of<Comm>, no_fold, std::byte>(where, bytes, comm.processors(), options...),
            comm, bytes);
    }

  private:
    template <verb V, class Comm, class X, class... Options>
    static outcome_of<V> in_place(Comm& comm, X&& x, const Options&... options) {
        if constexpr (require_different<Options...>() && require_data<X>())
            return issue_in_place<V, Collective>(comm, no_fold{}, std::forward<X>(x), options...);
        else if constexpr (V != verb::call)
            return {};
    }
    template <verb V, class Comm, class In, class Out, class... Options>
    static outcome_of<V> out_of_place(Comm& comm, In&& in, Out&& out, const Options&... options) {
        if constexpr (require_different<Options...>() && require_data<In>() && require_data<Out>())
            return issue_out_of_place<V, Collective>(comm, no_fold{}, std::forward<In>(in), std::forward<Out>(out),
                                                     options...);
        else if constexpr (V != verb::call)
            return {};
    }
    /// An address means nothing to another rank, or the wrong thing.
    template <class X>
    [[nodiscard]] static consteval bool require_data() {
        constexpr bool is_data = !std::is_pointer_v<std::remove_cvref_t<X>>;
        static_assert(is_data,
                      "allfold: this would move an address, not what lies there: pass a view of the elements, such "
                      "as std::span(pointer, count)");
        return is_data;
    }
};

}  // namespace allfold::detail
