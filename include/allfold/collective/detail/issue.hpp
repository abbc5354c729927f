// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "allfold/algebra/diagnose.hpp"
#include "allfold/collective/detail/arrangement.hpp"
#include "allfold/collective/detail/to_front.hpp"
#include "allfold/engine/compiled.hpp"
#include "allfold/engine/detail/leak.hpp"
#include "allfold/engine/short_arguments.hpp"

/// @file
/// Takes a call with typed arguments to the engine: checks at compile time what the call asks for, binds its arguments,
/// and has the engine carry out the verb.

namespace allfold::detail {

template <class OrderOption>
inline constexpr bool is_global = std::same_as<OrderOption, std::remove_const_t<decltype(order::global)>>;

/// The order level of a call: the one that the caller asked for; otherwise rank order unless the operator is
/// commutative. With an exact operator, and if nothing is folded, the bits are the same for every P at any level, so
/// `order::global` asks for nothing more.
template <class Op, class Element, class OrderOption>
[[nodiscard]] constexpr order level_of() noexcept {
    constexpr bool is_exact = std::same_as<Op, no_fold> || exact_operator<Op, Element>;
    if constexpr (is_global<OrderOption> && is_exact)
        return level_of<Op, Element, void>();
    else if constexpr (!std::is_void_v<OrderOption>)
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

/// Whether any candidate keeps the order.
[[nodiscard]] constexpr bool any_keeps(std::span<const candidate> candidates, order level) noexcept {
    for (const candidate& each : candidates)
        if (each.schedule->keeps >= level) return true;
    return false;
}

template <class Algorithm, class Collective>
concept algorithm_for = requires { typename Collective::template schedule_in<Algorithm>; };

/// Whether the operator may be commutative if the call asks for `order::any`.
template <class Collective, class Op, class Element, class OrderOption>
[[nodiscard]] consteval bool may_ask_for_order() {
    if constexpr (!Collective::promise.folds || !std::same_as<OrderOption, order::constant<0>> ||
                  says_commutative<Op, Element>) {
        return true;
    } else {
        constexpr bool fine = commutative_operator<Op, Element>;
        static_assert(
            fine,
            "allfold: order::any needs a commutative operator: write allfold::commutative(op) if it is, or ask "
            "for no order, which keeps rank order");
        return fine;
    }
}

template <class S>
[[nodiscard]] consteval bool require_schedule() {
    static_assert(
        schedule<S>,
        "allfold: this algorithm's type for the collective is not a schedule: it needs `keeps`, and blocks(), "
        "rounds() and operator[](round) that are const and return int, int and step");
    if constexpr (schedule<S>)
        static_assert(S::keeps <= order::tree,
                      "allfold: no schedule can keep order::global: let it keep order::tree, which is as much if the "
                      "operator is exact");
    return schedule<S>;
}

/// Whether the named algorithm, or any candidate, gives what a call asks for; if not, a one-line compile error says
/// what to write.
template <class Collective, reach Reach, class Algorithm, class Op, class Element, class OrderOption>
[[nodiscard]] consteval bool fits() {
    constexpr order level = level_of<Op, Element, OrderOption>();
    constexpr bool has_level = level != order::global;
    static_assert(has_level,
                  "allfold: order::global is for operators that are exact, such as exact_sum, and for distributed "
                  "arrays: ask for order::tree or a weaker level");
    if constexpr (!has_level || !may_ask_for_order<Collective, Op, Element, OrderOption>()) {
        return false;
    } else if constexpr (std::same_as<Algorithm, automatic>) {
        constexpr bool enough = !Collective::promise.folds || any_keeps(candidates_of<Collective, Reach>(), level);
        static_assert(enough,
                      "allfold: no schedule of this collective gives the order level that the call asks for between "
                      "processes of several threads: ask for order::rank or a weaker level");
        return enough;
    } else if constexpr (is_any_algorithm<Algorithm>) {  // the rest is checked at run time
        constexpr bool has = std::same_as<typename Algorithm::collective, Collective>;
        static_assert(has,
                      "allfold: this algorithm was chosen for another collective: make an any_algorithm for this one");
        return has;
    } else {
        constexpr bool has = algorithm_for<Algorithm, Collective>;
        static_assert(has,
                      "allfold: this algorithm has no schedule for this collective (it has those of its nested types): "
                      "name another one, or none");
        if constexpr (has && require_schedule<typename Collective::template schedule_in<Algorithm>>()) {
            using chosen = typename Collective::template schedule_in<Algorithm>;
            constexpr bool reaches = Reach != reach::levels || grouped_schedule<chosen>;
            static_assert(
                reaches,
                "allfold: only the first thread of each process communicates with other processes: name two_level, "
                "two_level_halving or no algorithm");
            if constexpr (!reaches || !Collective::promise.folds) {
                return reaches;
            } else if constexpr (says_commutative<Op, Element> && std::is_void_v<OrderOption>) {
                return true;  // decided at run time, by its value
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

/// Whether a transport can carry the elements; if not, a one-line compile error says what to write.
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
                      "bytes: this type needs more");
        return aligned;
    }
}

enum class verb { call, start, prepare };
template <verb V>
using outcome_of =
    std::conditional_t<V == verb::call, void, std::conditional_t<V == verb::start, operation, persistent>>;

[[nodiscard]] inline std::uint64_t hash_of_algorithm(const schedule_maker& maker,
                                                     std::uint64_t parameters = 0) noexcept {
    return maker.algorithm_hash() * 1009 ^ parameters;
}

template <class Collective, class Option>
void name_algorithm([[maybe_unused]] request& what, [[maybe_unused]] const Option& option) {
    if constexpr (algorithm<Option>) {
        what.named = &maker_of<typename Collective::template schedule_in<Option>, Option>;
        what.algorithm = &option;
        what.algorithm_hash = hash_of_algorithm(*what.named, detail::hash_of_value(option));
    } else if constexpr (is_any_algorithm<Option>) {
        option.name_in(what);
    }
}

/// Everything in a request that depends on types.
template <class Collective, reach Reach, class Op, class Element, class... Options>
[[nodiscard]] request make_request(const Options&... options) {
    request what{{&Collective::promise, &Collective::lay_out, candidates_of<Collective, Reach>()},
                 nullptr,
                 nullptr,
                 0,
                 level_of<Op, Element, order_among<Options...>>(),
                 call_options(options...),
                 type_name<Element>,
                 type_name<Op>,
                 hash_of_types<Collective, Element, Op>()};
    (name_algorithm<Collective>(what, options), ...);
    return what;
}

/// Takes the law that the operator declares by its value rather than its type. Throws if the call requires more.
template <class Element, class OrderOption, class Op>
void ask_operator(request& what, const Op& op, int rank) {
    const bool commutes = detail::commutes<Element>(op);
    what.commutative = commutes ? law_known::holds : law_known::fails;
    if constexpr (std::is_void_v<OrderOption>)
        if (commutes) what.level = order::any;
    if (commutes) return;
    const char* const collective = what.collective.promise->name;
    const char* const but = ", but the operator is declared not commutative";
    if (what.named != nullptr && what.named->keeps == order::any)
        throw error(errc::bad_argument,
                    text({collective, ": rank ", rank, ": ", what.named->name, " rotates the order of operands", but}));
    if (what.level == order::any)
        throw error(errc::bad_argument, text({collective, ": rank ", rank, " asks for order::any", but}));
}

/// The transport's own collective for a call, if there is one that may carry it out.
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

/// Its address distinguishes calls with these types from all others.
template <class Collective, class Op, class Element, class Order, class Algorithm>
inline constexpr int types_of_call = 0;
/// The same if values matter as well as types: one address for each alignment and each answer of the operator.
template <class Collective, class Op, class Element, class Order, class Algorithm>
inline constexpr std::array<int, 14> values_of_call{};

template <class Option>
inline constexpr bool is_permutation = std::same_as<Option, shift> || std::same_as<Option, destinations>;

template <class Option>
inline constexpr bool says_blocks =
    std::same_as<Option, partition> || std::same_as<Option, input_blocks> || std::same_as<Option, output_blocks>;

/// The mark of a list covers how the list is cut, and which of its pieces form a block, unless they are at
/// displacements.
template <class Option, class... All>
inline constexpr bool is_covered_by_list_mark =
    (is_arrangement<Option> || (std::same_as<Option, partition> && !has_option<displacements, All...>)) &&
    has_option<list_mark, All...>;
/// Whether a call names blocks that no mark covers.
template <class... Options>
inline constexpr bool names_blocks = ((says_blocks<Options> && !is_covered_by_list_mark<Options, Options...>) || ...);

/// The options that a remembered call may have: an algorithm without parameters is told by its type.
template <class Option>
inline constexpr bool short_option =
    (algorithm<Option> && std::is_empty_v<Option>) || std::same_as<Option, root> || std::same_as<Option, delegate> ||
    std::same_as<Option, list_mark> || is_order<Option> || is_permutation<Option> || says_blocks<Option>;

/// Whether calls of these types may be remembered.
template <verb V, class Comm, class Op, class In, class Out, class... Options>
inline constexpr bool may_be_remembered =
    Comm::has_short_path && (may_be_short<Op, In, Out> || (V == verb::call && may_lift_short<Op, In, Out>)) &&
    ((short_option<Options> || is_covered_by_list_mark<Options, Options...> ||
      (V == verb::call && std::same_as<Options, deadline>)) &&
     ...);

/// Finds the mark of the permutation that a call names; false if the call cannot be remembered, as with an invalid
/// list.
[[nodiscard]] inline bool find_permutation(const call_options& options, int size, std::uint64_t& mark) noexcept {
    const auto is_rank = [size](int r) { return r >= 0 && r < size; };
    if (size > short_program::max_ranks) return false;
    if (options.destinations != nullptr) {
        const std::vector<int>& to = options.destinations->ranks();
        if (to.size() != static_cast<std::size_t>(size) || !std::ranges::all_of(to, is_rank)) return false;
    }
    mark = hash_of_setting(options.setting_of(0, size, 1));
    return true;
}

/// A mark of the blocks that a call names.
[[nodiscard]] inline std::uint64_t mark_of_blocks(const call_options& options) noexcept {
    list_hash hash;
    for (const partition* each : {options.blocks, options.input_blocks, options.output_blocks}) {
        hash.add_one(each != nullptr ? static_cast<std::uint64_t>(each->blocks()) : ~std::uint64_t{0});
        for (int block = 0; each != nullptr && block < each->blocks(); ++block) hash.add_one(each->extent(block));
    }
    return hash.mark().value;
}

/// What distinguishes the call from others, apart from numbers.
template <class Collective, class Order, class Algorithm, class Used>
[[nodiscard]] const void* types_key([[maybe_unused]] const Used& data,
                                    [[maybe_unused]] const typename Used::operation& op) {
    using operation = typename Used::operation;
    using given = typename Used::given;
    constexpr bool is_asked = says_commutative<operation, typename Used::state>;
    if constexpr (Used::is_raw || is_asked) {
        std::size_t which = 0;
        if constexpr (Used::is_raw) which = 2 * static_cast<std::size_t>(std::countr_zero(data.alignment()));
        if constexpr (is_asked) which += detail::commutes<typename Used::state>(op) ? 1 : 0;
        return &values_of_call<Collective, operation, given, Order, Algorithm>[which];
    } else {
        return &types_of_call<Collective, operation, given, Order, Algorithm>;
    }
}

/// The key that distinguishes the call from others; its `types` are null if the engine has to look at the arguments.
template <class Collective, class Used, class... Options>
[[nodiscard]] call_key find_key(const Used& data, const typename Used::operation& op, [[maybe_unused]] int size,
                                const Options&... options) {
    if (!data.are_plain()) return {};
    const call_options understood(options...);
    call_key key =
        data.key(types_key<Collective, order_among<Options...>, algorithm_among<Options...>>(data, op), understood);
    if constexpr ((is_permutation<Options> || ...))
        if (!find_permutation(understood, size, key.permutation)) return {};
    if constexpr (names_blocks<Options...>) {
        if (size > short_program::max_ranks) return {};
        key.permutation ^= mark_of_blocks(understood);
    }
    return key;
}
/// Runs a call that the communicator remembers; false if it does not, and the engine has to run it.
template <class Collective, class In, class Out, class Comm, class Op, class... Options>
[[nodiscard]] bool run_remembered(Comm& comm, const Op& op, const operands_given<In, Out>& data,
                                  const Options&... options) {
    if (comm.background().is_running() || background::in_flight()) return false;
    using used = short_arguments<Op, In, Out>;
    const used bound(data);
    const call_key key = find_key<Collective>(bound, op, comm.size(), options...);
    if (key.types == nullptr) return false;
    if constexpr (has_option<deadline, Options...>) {
        const short_calls::limited waits(comm.background(), *find_option<deadline>(options...));
        return bound.run(comm, op, key);
    } else {
        return bound.run(comm, op, key);
    }
}
/// The same in the background; null if the engine has to run it.
template <class Collective, class In, class Out, class Comm, class Op, class... Options>
[[nodiscard]] std::unique_ptr<pending> prepare_remembered(Comm& comm, const Op& op, const operands_given<In, Out>& data,
                                                          const Options&... options) {
    if (comm.background().is_running()) return nullptr;
    using used = short_arguments<Op, In, Out>;
    used::require_retained(data);
    const used bound(data);
    const call_key key = find_key<Collective>(bound, op, comm.size(), options...);
    return key.types != nullptr ? bound.prepare(comm, op, key) : nullptr;
}
/// The key under which a call that the engine runs is remembered; its `types` are null if it is not.
template <verb V, class Collective, class In, class Out, class Comm, class Op, class... Options>
[[nodiscard]] call_key key_to_remember(Comm& comm, const Op& op, const operands_given<In, Out>& data,
                                       const Options&... options) {
    if (comm.background().is_running() || (V == verb::call && background::in_flight())) return {};
    using used = short_arguments<Op, In, Out>;
    const call_key key = find_key<Collective>(used(data), op, comm.size(), options...);
    if constexpr (names_blocks<Options...>)  // which may be others in each call
        if (key.types != nullptr && !short_calls::has_seen(comm.background(), key)) return {};
    return key;
}

template <verb V>
[[nodiscard]] outcome_of<V> hand_out(std::unique_ptr<pending> prepared) {
    if constexpr (V == verb::start)
        prepared->start();
    else if (prepared)
        prepared->announce_prepared();
    return outcome_of<V>(std::move(prepared));
}

/// Issues a call with an option that says when it begins or ends: see collective/sync.hpp, which also has those
/// options.
template <verb V, class Collective, class In, class Out, class Comm, class Op, class... Options>
outcome_of<V> issue_synchronised(Comm& comm, const Op& op, const operands_given<In, Out>& data,
                                 const Options&... options);

/// Whether ranks of a hierarchy make this call without regard to levels. Two-level schedules cannot handle blocks of
/// different lengths. A permute is always flat: it takes 0.16x to 1.04x the time of two levels, for 8 B to 1 MiB on 2
/// and 4 processes of 2 and 4 threads over Open MPI.
template <class Collective, class... Options>
inline constexpr bool goes_flat = std::same_as<algorithm_among<Options...>, automatic> &&
                                  (Collective::promise.cut == cut_for::owner ||
                                   (Collective::promise.cut == cut_for::pairs &&
                                    (has_option<input_blocks, Options...> || has_option<output_blocks, Options...> ||
                                     has_option<partition, Options...>)));

/// The last typed step: binds the arguments and has the engine carry out the verb. Kept out of line, apart from the
/// short path, which needs few registers and little memory.
template <verb V, class Collective, class In, class Out, class Comm, class Op, class... Options>
[[gnu::noinline]] outcome_of<V> issue_to_engine(Comm& comm, const Op& op, const operands_given<In, Out>& data,
                                                const Options&... options) {
    using bound = arguments_for<Op, In, Out, Options...>;
    using element = typename call_types<Op, In, Out>::state;
    [[maybe_unused]] call_key key;
    request what = make_request<Collective, reach_of<Comm>, Op, element>(options...);
    if constexpr (bound::has_lift) {  // other ranks may read elements as the caller has them
        what.element_type = type_name<typename bound::value>;
        what.type_hash ^= type_hash<typename bound::value>() * 65537;
    }
    if constexpr (may_be_remembered<V, Comm, Op, In, Out, Options...> &&
                  (V == verb::call || !has_option<list_mark, Options...>)) {
        key = key_to_remember<V, Collective>(comm, op, data, options...);
        if (key.types != nullptr) what.key = &key;
    }
    if constexpr (says_commutative<Op, element>) ask_operator<element, order_among<Options...>>(what, op, comm.rank());
    if constexpr (V == verb::call) {
        bound here(op, data);
        engine<Comm>::run(comm, what, here,
                          native_for<Comm, Collective, bound, algorithm_among<Options...>>(what.level));
    } else {
        return hand_out<V>(engine<Comm>::prepare(comm, what, std::unique_ptr<bound_arguments>(new bound(op, data))));
    }
}

/// The same, or the short path if the communicator remembers the call. A rank whose arguments turn out to be wrong
/// breaks the communicator, so that no other rank waits for it.
template <verb V, class Collective, class In, class Out, class Comm, class Op, class... Options>
outcome_of<V> issue_here(Comm& comm, const Op& op, const operands_given<In, Out>& data, const Options&... options) {
    try {
        if constexpr (V == verb::call && may_be_remembered<V, Comm, Op, In, Out, Options...>) {
            if (run_remembered<Collective>(comm, op, data, options...)) return;
        } else if constexpr (V != verb::call && may_be_remembered<V, Comm, Op, In, Out, Options...> &&
                             !has_option<list_mark, Options...>) {
            if (auto known = prepare_remembered<Collective>(comm, op, data, options...))
                return hand_out<V>(std::move(known));
        }
        return issue_to_engine<V, Collective>(comm, op, data, options...);
    } catch (...) {
        comm.background().note_seen();
        abort_communicator(comm);
        throw;
    }
}

/// The same, if the types are fine, on the communicator that can do what the options ask for.
template <verb V, class Collective, class In, class Out, class Comm, class Op, class... Options>
outcome_of<V> issue(Comm& comm, const Op& op, const operands_given<In, Out>& data, const Options&... options) {
    using element = typename call_types<Op, In, Out>::state;
    if constexpr ((is_sync_mode<Options> || ...))
        return issue_synchronised<V, Collective>(comm, op, data, options...);
    else if constexpr (Comm::has_groups && goes_flat<Collective, Options...>)
        return issue<V, Collective>(comm.flat(), op, data, options...);
    else if constexpr (require_arguments<Op, In, Out>() && require_carried<Comm, element>() &&
                       (V == verb::call || require_lasting<In, Out>()) &&
                       require_front<Collective, In, Out, Options...>() &&
                       fits<Collective, reach_of<Comm>, algorithm_among<Options...>, Op, element,
                            order_among<Options...>>())
        return issue_here<V, Collective>(comm, op, data, options...);
    else if constexpr (V != verb::call)
        return {};
}

/// Makes something from arguments. A rank whose arguments turn out to be wrong breaks the communicator, so that no
/// other rank waits for it.
template <class Comm, class Make>
auto make_or_abort(Comm& comm, const Make& make) {
    try {
        return make();
    } catch (...) {
        abort_communicator(comm);
        throw;
    }
}

/// The argument that a collective cuts, in the form in which remembered calls cut it themselves: a list of tensors, or
/// a tensor that is cut along an axis.
template <class X, class... Options>
[[nodiscard]] auto cut_in_place(X& x, int ranks, const Options&... options) {
    if constexpr (is_tensors<std::remove_cv_t<X>>) {
        return cut_list<typename X::element_type>(x, ranks);
    } else {
        using element = typename tensor_access<decltype(detail::viewed(x))>::element_type;
        return cut_tensor<element>(detail::viewed(x), find_option<axis>(options...)->number,
                                   find_option<partition>(options...), ranks);
    }
}
template <class X, class... Options>
using cut_of = const decltype(detail::cut_in_place(std::declval<std::remove_reference_t<X>&>(), 0,
                                                   std::declval<const Options&>()...));

/// Whether the only argument that a collective cuts has such a form.
template <class Collective, class In, class Out, class... Options>
inline constexpr bool cuts_in_place =
    cuts_input<Collective> != cuts_output<Collective> &&
    (is_tensors<
         std::remove_cvref_t<std::conditional_t<cuts_input<Collective> && !std::same_as<In, absent>, In, Out>>> ||
     has_option<axis, Options...>);

/// Whether calls with such an argument may be remembered, if nothing is wrong with their types.
template <class Collective, class In, class Out, class Comm, class Op, class... Options>
[[nodiscard]] consteval bool may_remember_cut() {
    if constexpr (cuts_in_place<Collective, In, Out, Options...> && Comm::has_short_path &&
                  ((short_option<Options> || std::same_as<Options, axis>) && ...)) {
        if constexpr (require_arguments<Op, In, Out>() &&
                      fits<Collective, reach_of<Comm>, automatic, Op, typename call_types<Op, In, Out>::state,
                           order_among<Options...>>()) {
            if constexpr (std::same_as<In, absent>)
                return may_be_short<Op, In, cut_of<Out, Options...>>;
            else if constexpr (cuts_input<Collective>)
                return may_be_short<Op, cut_of<In, Options...>, Out>;
            else
                return may_be_short<Op, In, cut_of<Out, Options...>>;
        }
    }
    return false;
}

/// Runs a call with an argument that is cut, if the communicator remembers it. This is tried first because arranging
/// the pieces in block order takes longer than a short call.
template <class Collective, class X, class Comm, class Op, class... Options>
[[nodiscard]] bool run_cut_in_place(Comm& comm, const Op& op, X& x, const Options&... options) {
    cut_of<X, Options...> cut = detail::cut_in_place(x, comm.size(), options...);
    const operands_given<absent, cut_of<X, Options...>> data{cut};
    return cut.is_plain() && run_remembered<Collective>(comm, op, data, options..., detail::mark_of_cut(cut));
}
template <class Collective, class In, class Out, class Comm, class Op, class... Options>
[[nodiscard]] bool run_cut_out_of_place(Comm& comm, const Op& op, In& in, Out& out, const Options&... options) {
    const auto is_block = [&comm](const auto& cut, const auto& of) {
        if constexpr (is_tensors<std::remove_cvref_t<decltype(of)>>)
            return cut.has_block(comm.rank(), of.lengths());
        else
            return true;
    };
    if constexpr (cuts_input<Collective>) {
        cut_of<In, Options...> cut = detail::cut_in_place(in, comm.size(), options...);
        const operands_given<cut_of<In, Options...>, Out> data{cut, out};
        return cut.is_plain() && is_block(cut, out) &&
               run_remembered<Collective>(comm, op, data, options..., detail::mark_of_cut(cut));
    } else {
        cut_of<Out, Options...> cut = detail::cut_in_place(out, comm.size(), options...);
        const operands_given<In, cut_of<Out, Options...>> data{in, cut};
        return cut.is_plain() && is_block(cut, in) &&
               run_remembered<Collective>(comm, op, data, options..., detail::mark_of_cut(cut));
    }
}

/// Runs collectives on memory of our own, which is never freed if they fail while a transport may still hold it.
template <class Comm, class Call, class... Memory>
void run_on_own_memory(Comm& comm, Call call, Memory&... memory) {
    try {
        call();
    } catch (...) {
        if (comm.holds_memory()) (detail::leak(memory), ...);
        throw;
    }
}

/// The mark of a list of pieces. If these are only at displacements there is none, since each rank has its own.
template <class X, class... Options>
[[nodiscard]] list_mark mark_of_pieces(const X& x, const partition* blocks, const Options&... options) {
    if constexpr (has_option<displacements, Options...> && !has_option<shards, Options...>)
        return {};
    else
        return detail::mark_of_lists(x, find_option<shards>(options...), blocks, find_option<axis>(options...));
}

/// Calls next(argument, options...) with one argument of a call. If the collective cuts the argument, and its blocks
/// are not already in order, it is replaced by a list of its pieces in block order, and the options give the block
/// lengths.
template <class Collective, bool IsInput, class X, class Comm, class Next, class... Options>
decltype(auto) in_block_order(Comm& comm, X&& x, Next next, const Options&... options) {
    constexpr bool is_cut = IsInput ? cuts_input<Collective> : cuts_output<Collective>;
    constexpr bool cuts_both = cuts_input<Collective> && cuts_output<Collective>;
    using options_used = std::conditional_t<!cuts_both, options_of_one,
                                            std::conditional_t<IsInput, options_of_input, options_of_output>>;
    using blocks_of = typename options_used::blocks;
    if constexpr (is_cut && needs_arrangement<X, options_used, Options...>) {
        constexpr bool may_differ = is_tensors<std::remove_cvref_t<X>> || has_option<partition, Options...> ||
                                    has_option<input_blocks, Options...> || has_option<output_blocks, Options...>;
        auto made = detail::make_or_abort(comm, [&] {
            const arrangement_place at{Collective::promise.name, comm.rank(), comm.size()};
            auto all = arrange<options_used>(at, x, options...);
            if constexpr (cuts_both && !may_differ) detail::require_uniform(at, all, IsInput ? "input" : "output");
            return all;
        });
        const list_mark mark = detail::mark_of_pieces(x, cuts_both ? nullptr : &made.blocks, options...);
        if constexpr (!cuts_both)
            return next(made.list, mark, made.blocks);
        else if constexpr (may_differ)
            return next(made.list, mark, blocks_of{made.blocks});
        else
            return next(made.list, mark);
    } else if constexpr (is_tensors<std::remove_cvref_t<X>> && IsInput && !cuts_output<Collective>) {
        return next(std::forward<X>(x), detail::mark_of_lists(x, nullptr));
    } else {
        return next(std::forward<X>(x));
    }
}

template <class X, class... Options>
inline constexpr bool may_be_arranged = is_tensors<std::remove_cvref_t<X>> || (is_arrangement<Options> || ...);

/// The call as the communicator remembers it, to be run together with others; nothing if the engine has to look at it.
/// Until then the operator, and what the arguments refer to, stay where they are.
template <class Collective, class In, class Out, class Comm, class Op, class... Options>
[[nodiscard]] recalled_call recall_if_short(Comm& comm, const Op& op, const operands_given<In, Out>& data,
                                            const Options&... options) {
    if constexpr (!may_be_arranged<In, Options...> && !may_be_arranged<Out, Options...>) {
        if constexpr (may_be_remembered<verb::prepare, Comm, Op, In, Out, Options...>) {
            using used = short_arguments<Op, In, Out>;
            const used bound(data);
            const call_key key = find_key<Collective>(bound, op, comm.size(), options...);
            if (key.types != nullptr) return bound.recall(comm, op, key);
        }
    }
    return {};
}

/// The same as `issue`, for arguments whose blocks may be anywhere.
template <verb V, class Collective, class X, class Comm, class Op, class... Options>
outcome_of<V> issue_in_place(Comm& comm, const Op& op, X&& x, const Options&... options) {
    if constexpr (!may_be_arranged<X, Options...>) {
        return issue<V, Collective>(comm, op, operands_given<absent, X>{x}, options...);
    } else if constexpr (require_arrangement<Collective, absent, X, Options...>()) {
        if constexpr (V == verb::call && may_remember_cut<Collective, absent, X, Comm, Op, Options...>())
            if (detail::make_or_abort(comm, [&] { return run_cut_in_place<Collective>(comm, op, x, options...); }))
                return;
        return in_block_order<Collective, !cuts_output<Collective> || cuts_input<Collective>>(
            comm, std::forward<X>(x),
            [&]<class Arranged>(Arranged&& data, const auto&... more) -> outcome_of<V> {
                return issue<V, Collective>(comm, op, operands_given<absent, Arranged>{data}, options..., more...);
            },
            options...);
    } else if constexpr (V != verb::call) {
        return {};
    }
}
template <verb V, class Collective, class In, class Out, class Comm, class Op, class... Options>
outcome_of<V> issue_out_of_place(Comm& comm, const Op& op, In&& in, Out&& out, const Options&... options) {
    if constexpr (!may_be_arranged<In, Options...> && !may_be_arranged<Out, Options...>) {
        return issue<V, Collective>(comm, op, operands_given<In, Out>{in, out}, options...);
    } else if constexpr (require_arrangement<Collective, In, Out, Options...>()) {
        if constexpr (V == verb::call && may_remember_cut<Collective, In, Out, Comm, Op, Options...>())
            if (detail::make_or_abort(comm,
                                      [&] { return run_cut_out_of_place<Collective>(comm, op, in, out, options...); }))
                return;
        if constexpr (is_tensors<std::remove_cvref_t<In>> && is_tensors<std::remove_cvref_t<Out>>)
            detail::make_or_abort(comm, [&] {
                const arrangement_place at{Collective::promise.name, comm.rank(), comm.size()};
                require_shards<Collective>(at, in, out, find_option<shards>(options...));
            });
        return in_block_order<Collective, true>(
            comm, std::forward<In>(in),
            [&]<class ArrangedIn>(ArrangedIn&& from, const auto&... first) -> outcome_of<V> {
                return in_block_order<Collective, false>(
                    comm, std::forward<Out>(out),
                    [&]<class ArrangedOut>(ArrangedOut&& to, const auto&... second) -> outcome_of<V> {
                        return issue<V, Collective>(comm, op, operands_given<ArrangedIn, ArrangedOut>{from, to},
                                                    options..., first..., second...);
                    },
                    options...);
            },
            options...);
    } else if constexpr (V != verb::call) {
        return {};
    }
}

}  // namespace allfold::detail
