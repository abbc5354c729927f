// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <concepts>
#include <cstddef>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "allfold/algebra/laws.hpp"
#include "allfold/algebra/row.hpp"
#include "allfold/algebra/stretch.hpp"

/// @file
/// The operator concepts: what a type must offer to be folded with, and how it declares its laws.

namespace allfold {

/// The laws of a third-party operator type, to which no member can be added: specialise this with a `static constexpr
/// law_set value`.
template <class Op, class T>
struct operator_laws {};

namespace detail {

template <class Op, class T>
[[nodiscard]] consteval law_set find_laws() noexcept {
    if constexpr (requires { operator_laws<Op, T>::value; })
        return operator_laws<Op, T>::value;
    else if constexpr (requires { Op::template laws_on<T>; })
        return Op::template laws_on<T>;
    else if constexpr (requires { Op::laws; })
        return Op::laws;
    else
        return {};
}

template <class Op, class T>
concept folds_elements = requires(const Op& op, const T& x) {
    { op(x, x) } -> std::convertible_to<T>;
};
/// Whether the operator takes any number of elements. It is not probed with stretches or rows, since it may be a
/// generic lambda.
template <class Op, class T>
concept folds_any_number = folds_elements<Op, T> && requires(const Op& op, const T& x) {
    { op(x, x, x) } -> std::convertible_to<T>;
};

/// Whether the operator folds many rows at once.
template <class Op, class T>
concept folds_elements_in_stretches =
    !folds_any_number<Op, T> && requires(const Op& op, stretch<const T> x, stretch<T> out) { op(x, x, out); };
template <class Op, class T>
inline constexpr bool folds_stretches = folds_elements_in_stretches<Op, T>;
/// On several tensors, an operator that folds single rows is not probed with stretches, since it may be a generic
/// lambda.
template <class Op, class... Ts>
concept folds_single_rows =
    !(folds_any_number<Op, Ts> && ...) && requires(const Op& op, row<const Ts...> x, row<Ts...> out) { op(x, x, out); };
template <class Op, class... Ts>
concept folds_rows_in_stretches =
    !folds_single_rows<Op, Ts...> && !(folds_any_number<Op, Ts> && ...) &&
    requires(const Op& op, stretches<const Ts...> x, stretches<Ts...> out) { op(x, x, out); };
template <class Op, class... Ts>
inline constexpr bool folds_stretches<Op, row<Ts...>> = folds_rows_in_stretches<Op, Ts...>;

/// Whether the operator folds whole rows itself, rather than each element of each tensor.
template <class Op, class T>
inline constexpr bool folds_rows = false;
template <class Op, class... Ts>
inline constexpr bool folds_rows<Op, row<Ts...>> = folds_single_rows<Op, Ts...> || folds_rows_in_stretches<Op, Ts...>;

/// Whether an operator folds each tensor of rows with a separate operator, `part<C>()`, as `fused` does.
template <class Op>
inline constexpr bool has_parts = requires(const Op& op) { op.template part<0>(); };

template <class Op, class T>
inline constexpr bool is_binary_operation = folds_elements<Op, T> || folds_stretches<Op, T>;
template <class Op, class... Ts>
inline constexpr bool is_binary_operation<Op, row<Ts...>> =
    folds_rows<Op, row<Ts...>> || (is_binary_operation<Op, Ts> && ...);

}  // namespace detail

/// The laws that `Op` declares on elements of type T: `operator_laws<Op, T>`, else the member `Op::laws_on<T>` (depends
/// on the element type), else `Op::laws`.
template <class Op, class T>
inline constexpr law_set laws_of = detail::find_laws<std::remove_cvref_t<Op>, T>();

/// An operator that is applied to rows element by element has the laws that it has on all of their element types.
template <class Op, class... Ts>
    requires(!detail::folds_rows<std::remove_cvref_t<Op>, row<Ts...>>)
inline constexpr law_set laws_of<Op, row<Ts...>> = [] {
    law_set common = law::associative | law::commutative | law::idempotent | law::exact;
    ((common.bits &= detail::find_laws<std::remove_cvref_t<Op>, Ts>().bits), ...);
    return common;
}();

/// A binary operation on T: a copyable value whose const call operator can be called either as `T(const T&, const T&)`,
/// or as `op(left, right, out)` with many elements at once (see `stretch`). If it supports both, the latter is used. It
/// may have state, and needs neither a default constructor nor linkage; two values of one type are two operators. For T
/// = `row<Ts...>` it is `op(left, right, out)` on rows or on `stretches` of them (`out` may be `left` or `right`), or
/// the operation on every element type, which is then applied element by element.
template <class Op, class T>
concept binary_operation =
    std::copy_constructible<std::remove_cvref_t<Op>> && detail::is_binary_operation<std::remove_cvref_t<Op>, T>;

/// A `binary_operation` that takes many elements, or rows, at once: see `stretch`.
template <class Op, class T>
concept stretch_operation = binary_operation<Op, T> && detail::folds_stretches<std::remove_cvref_t<Op>, T>;

/// A `binary_operation` on T that is declared associative. The compiler cannot see whether the law holds; `check_laws`
/// tests it on samples. Not required: commutativity, an identity, default construction.
template <class Op, class T>
concept associative_operator = binary_operation<Op, T> && laws_of<Op, T>.has(law::associative);

/// An `associative_operator` that is also declared commutative, as a ring needs.
template <class Op, class T>
concept commutative_operator = associative_operator<Op, T> && laws_of<Op, T>.has(law::commutative);

namespace detail {

/// Whether an operator declares commutativity at run time, through its value rather than its type. One that consists
/// of others may do so for each type by itself: `commutative_on<T>()`.
template <class Op, class T>
concept says_commutative = associative_operator<Op, T> && !commutative_operator<Op, T> && (requires(const Op& op) {
                               { op.commutative() } -> std::convertible_to<bool>;
                           } || requires(const Op& op) {
                               { op.template commutative_on<T>() } -> std::convertible_to<bool>;
                           });

/// Whether an operator is commutative on T, by its type or by its value.
template <class T, class Op>
[[nodiscard]] constexpr bool commutes(const Op& op) {
    if constexpr (!says_commutative<Op, T>)
        return commutative_operator<Op, T>;
    else if constexpr (requires { op.commutative(); })
        return op.commutative();
    else
        return op.template commutative_on<T>();
}

}  // namespace detail

/// An `associative_operator` with a ∘ a = a.
template <class Op, class T>
concept idempotent_operator = associative_operator<Op, T> && laws_of<Op, T>.has(law::idempotent);

/// An `associative_operator` whose result does not depend on the bracketing, to the last bit.
template <class Op, class T>
concept exact_operator = associative_operator<Op, T> && laws_of<Op, T>.has(law::exact);

namespace detail {

template <class T>
struct identity_lookup {
    template <class Op>
    static constexpr bool exists = requires(const Op& op) {
        { op.template identity<T>() } -> std::convertible_to<T>;
    } || requires(const Op& op) {
        { op.identity() } -> std::convertible_to<T>;
    };
    template <class Op>
    [[nodiscard]] static constexpr T of(const Op& op) {
        if constexpr (requires { op.template identity<T>(); })
            return op.template identity<T>();
        else
            return op.identity();
    }
};

}  // namespace detail

/// An operator with a member `identity()` or `identity<T>()` that returns a value e with e ∘ x = x ∘ e = x. An
/// exclusive scan returns it on rank 0. `with_identity(op, e)` adds one to an operator. An operator on rows has
/// `set_identity(out)` instead: see `row`.
template <class Op, class T>
concept operator_with_identity =
    associative_operator<Op, T> && detail::identity_lookup<T>::template exists<std::remove_cvref_t<Op>>;

/// The identity of `op` on T.
template <class T, operator_with_identity<T> Op>
[[nodiscard]] constexpr T identity_of(const Op& op) {
    return detail::identity_lookup<T>::of(op);
}

/// An operator that folds states rather than values: `op.lift(value)` makes the state of one contribution.
template <class Op, class T>
concept lifting_operator = requires(const Op& op, const T& value) { op.lift(value); };

/// An operator whose folded state is turned into a value by `op.lower(state, contributions)`, which is where a
/// mean divides.
template <class Op, class State>
concept lowering_operator =
    requires(const Op& op, const State& state, int contributions) { op.lower(state, contributions); };

namespace detail {

/// left ∘ right of two elements.
template <class T, class Op>
[[nodiscard]] constexpr T fold_two(const Op& op, const T& left, const T& right) {
    if constexpr (folds_stretches<Op, T>) {
        T out = left;
        op(stretch<const T>(std::addressof(left), 1), stretch<const T>(std::addressof(right), 1),
           stretch<T>(std::addressof(out), 1));
        return out;
    } else {
        return static_cast<T>(op(left, right));
    }
}

/// What an operator folds for a value, namely its state if it folds states; and what it makes of the folded state.
template <class Op, class T>
[[nodiscard]] constexpr auto lifted(const Op& op, const T& value) {
    if constexpr (lifting_operator<Op, T>)
        return op.lift(value);
    else
        return value;
}
template <class Op, class T>
[[nodiscard]] constexpr auto lowered(const Op& op, const T& state, int contributions) {
    if constexpr (lowering_operator<Op, T>)
        return op.lower(state, contributions);
    else
        return state;
}

/// Whether a class can be derived from F.
template <class F>
concept possible_base = std::is_class_v<F> && !std::is_final_v<F>;

/// Whether an operator has a member named `lower`, whatever its parameters. One that consists of others always has
/// one, and says by `parts_lower` whether any of them has; so do operators derived from it.
struct member_named_lower {
    int lower;
};
template <class Op>
struct ambiguous_lower : Op, member_named_lower {};
template <class Op>
inline constexpr bool has_member_lower = false;
template <possible_base Op>
inline constexpr bool has_member_lower<Op> = !requires { &ambiguous_lower<Op>::lower; };
template <possible_base Op>
    requires requires { Op::parts_lower; }
inline constexpr bool has_member_lower<Op> = Op::parts_lower;

/// Wraps a callable that cannot be a base class: a function pointer or an object of a final class.
template <class F>
struct held {
    F function;

    template <class... Args>
    constexpr auto operator()(const Args&... args) const -> decltype(function(args...)) {
        return function(args...);
    }
};

template <class F>
using as_base = std::conditional_t<possible_base<F>, F, held<F>>;

/// A callable with additional laws declared for it. Inherits everything else: captures, identity, lift and lower.
template <class F, law Extra>
struct declared : as_base<F> {
    template <class T>
    static constexpr law_set laws_on = laws_of<F, T> | law::associative | Extra;
};

/// An associative callable that is declared commutative, or not, at run time. Inherits everything else.
template <class F>
struct commuting_if : as_base<F> {
    bool commutes;

    template <class T>
    static constexpr law_set laws_on = laws_of<F, T>.without(law::commutative) | law::associative;
    [[nodiscard]] constexpr bool commutative() const noexcept { return commutes; }
};

/// Whether a value of type E can stand for an element of type T: an integer for any number, but not a floating point
/// number for an integer.
template <class E, class T>
concept fits_elements = std::convertible_to<const E&, T> && !(std::is_floating_point_v<E> && std::is_integral_v<T>);

/// The same for one value per tensor of rows.
template <class E, class... Ts>
inline constexpr bool fits_rows = false;
template <class... Es, class... Ts>
    requires(sizeof...(Es) == sizeof...(Ts))
inline constexpr bool fits_rows<std::tuple<Es...>, Ts...> = (fits_elements<Es, Ts> && ...);

/// A callable with an identity added. Inherits everything else.
template <class F, class E>
struct identity_wrapper : as_base<F> {
    using given_identity = E;
    E e;

    template <class T>
    static constexpr law_set laws_on = laws_of<F, T>;

    template <class T>
        requires fits_elements<E, T>
    [[nodiscard]] constexpr T identity() const {
        return static_cast<T>(e);
    }
    template <class... Ts>
        requires fits_rows<E, Ts...>
    constexpr void set_identity(row<Ts...> out) const {
        const auto fill = [](auto tensor, const auto& value) {
            for (auto& each : tensor) each = static_cast<std::remove_reference_t<decltype(each)>>(value);
        };
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            (fill(std::get<I>(out), std::get<I>(e)), ...);
        }(std::index_sequence_for<Ts...>());
    }
};

/// A callable whose identity is unknown. Inherits everything else.
template <class F>
struct no_identity_wrapper : as_base<F> {
    template <class T>
    static constexpr law_set laws_on = laws_of<F, T>;
    void identity() const = delete;
    void set_identity() const = delete;
};

/// Whether the identity given to an operator fits what it folds; true for an operator without a given identity.
template <class Op, class T>
inline constexpr bool given_identity_fits = true;
template <class Op, class T>
    requires requires { typename Op::given_identity; }
inline constexpr bool given_identity_fits<Op, T> = fits_elements<typename Op::given_identity, T>;
template <class Op, class... Ts>
    requires requires { typename Op::given_identity; }
inline constexpr bool given_identity_fits<Op, row<Ts...>> =
    folds_rows<Op, row<Ts...>> ? fits_rows<typename Op::given_identity, Ts...>
                               : (fits_elements<typename Op::given_identity, Ts> && ...);

}  // namespace detail

/// Declares that `f` is associative: `associative([](const matrix& a, const matrix& b) { return a * b; })`.
template <class F>
[[nodiscard]] constexpr auto associative(F f) {
    return detail::declared<F, law::associative>{std::move(f)};
}

/// Declares that `f` is associative and commutative.
template <class F>
[[nodiscard]] constexpr auto commutative(F f) {
    return detail::declared<F, law::commutative>{std::move(f)};
}

/// Declares that `f` is associative, and that it is commutative if and only if `flag` is true: for wrappers that learn
/// this only at run time. The order of folds, the schedules that `choose` picks from and what ranks have to agree on
/// are the same as if it had been declared so (or not) at compile time, but the code is compiled only once. If the flag
/// is false and the caller names a schedule that rotates the order, or `order::any`, the call throws.
///
/// Alternatively, an operator may have a const member `commutative()` that returns a bool, which must not change while
/// an operation is running.
template <class F>
[[nodiscard]] constexpr auto commutative_if(bool flag, F f) {
    return detail::commuting_if<F>{{std::move(f)}, flag};
}

/// The operator `op` with the identity e, such that e ∘ x = x ∘ e = x; it replaces any identity that `op` has. Laws,
/// captures, lift and lower stay. If `op` folds rows of several tensors, e is a std::tuple with one value per tensor.
///
///     const auto join = associative([](const std::string& a, const std::string& b) { return a + b; });
///     exclusive_scan(comm, word, with_identity(join, ""));  // rank 0 gets ""
template <class Op, class E>
[[nodiscard]] constexpr auto with_identity(Op op, E e) {
    return detail::identity_wrapper<Op, E>{{std::move(op)}, std::move(e)};
}

/// The operator `op` as if it had no identity: an exclusive scan leaves the result on rank 0 unchanged. Laws, captures,
/// lift and lower stay.
template <class Op>
[[nodiscard]] constexpr auto without_identity(Op op) {
    return detail::no_identity_wrapper<Op>{{std::move(op)}};
}

}  // namespace allfold
