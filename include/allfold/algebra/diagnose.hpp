// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <concepts>
#include <functional>
#include <ranges>
#include <type_traits>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/operator.hpp"
#include "allfold/algebra/row.hpp"
#include "allfold/algebra/standard_functors.hpp"
#include "allfold/algebra/stretch.hpp"
#include "allfold/data/tensor_view.hpp"

/// @file
/// Reports in one line what is wrong with an operator and what to write instead. A collective asks first and compiles
/// the rest of its body only if the answer is yes, so that this line is the only error:
///
///     if constexpr (detail::require_associative<Op, T>()) run(...);

namespace allfold {

struct mean;
struct min_loc;
struct max_loc;
template <class... Ops>
class fused;

namespace detail {

template <class Op>
inline constexpr bool is_fused = false;
template <class... Ops>
inline constexpr bool is_fused<fused<Ops...>> = true;

template <class Op>
inline constexpr bool is_minus = false;
template <class T>
inline constexpr bool is_minus<std::minus<T>> = true;

template <class Op>
inline constexpr bool is_divides = false;
template <class T>
inline constexpr bool is_divides<std::divides<T>> = true;

/// Whether an operator seems intended to fold stretches, but cannot be called with constants on both sides, or while
/// const.
template <class Op, class T>
inline constexpr bool nearly_folds_stretches =
    requires(Op& op, stretch<T> x) { op(x, x, x); } || requires(const Op& op, stretch<T> x) { op(x, x); };
template <class Op, class... Ts>
inline constexpr bool nearly_folds_stretches<Op, row<Ts...>> =
    requires(Op& op, stretches<Ts...> x) { op(x, x, x); } || (nearly_folds_stretches<Op, Ts> && ...);

template <class T>
inline constexpr bool is_row = false;
template <class... Ts>
inline constexpr bool is_row<row<Ts...>> = true;

/// Whether the identity given to an associative operator fits; a compile-time error if it does not.
template <class Op, class T>
[[nodiscard]] consteval bool require_fitting_identity() {
    constexpr bool fits = given_identity_fits<Op, T>;
    static_assert(fits,
                  "allfold: the identity given to with_identity(op, e) does not fit what is folded: e must convert to "
                  "the element type or, if op folds rows, be a std::tuple with one value for each tensor");
    return fits;
}

/// Whether `Op` is an associative operator on T; a compile-time error if it is not.
template <class Op, class T>
[[nodiscard]] consteval bool require_associative() {
    using operation = std::decay_t<Op>;  // a function is passed as a pointer
    constexpr bool fine = associative_operator<operation, T>;
    if constexpr (fine)
        return require_fitting_identity<operation, T>();
    else if constexpr (is_minus<operation>)
        static_assert(fine,
                      "allfold: std::minus is not associative: fold with allfold::sum{} and negate, or write an "
                      "associative operator");
    else if constexpr (is_divides<operation>)
        static_assert(fine,
                      "allfold: std::divides is not associative: fold with allfold::product{} and invert, or write an "
                      "associative operator");
    else if constexpr (!std::copy_constructible<operation>)
        static_assert(
            fine, "allfold: the operator cannot be copied: hold the non-copyable part by pointer or std::shared_ptr");
    else if constexpr (std::same_as<operation, mean> && (integer<T> || std::same_as<T, bool>))
        static_assert(fine,
                      "allfold: the mean of integers is not an integer: convert them to floating point, or fold with "
                      "allfold::sum{} and divide");
    else if constexpr (!binary_operation<operation, T> &&
                       (std::same_as<operation, min_loc> || std::same_as<operation, max_loc>))
        static_assert(
            fine,
            "allfold: min_loc and max_loc fold allfold::located<T> values: write located{value, index}, not a "
            "pair");
    else if constexpr (!binary_operation<operation, T> && std::same_as<operation, sum> && std::same_as<T, bool>)
        static_assert(fine,
                      "allfold: a bool is a truth value: fold with allfold::logical_or{} or logical_and{}, or count in "
                      "an int");
    else if constexpr (!binary_operation<operation, T> && scattered_range<T>)
        return require_contiguous<T>();
    else if constexpr (!binary_operation<operation, T> && std::ranges::range<T> && !is_row<T> && !is_string<T>)
        static_assert(fine,
                      "allfold: the elements here are themselves ranges, which this operator does not fold: pass a "
                      "span or a tensor of what they contain");
    else if constexpr (!binary_operation<operation, T> && is_fused<operation>)
        static_assert(fine,
                      "allfold: fused{...} needs one operator for each tensor of records, or member of a tuple, in "
                      "the same order; each must fold those elements, in records with a state of the same type");
    else if constexpr (is_fused<operation>)
        static_assert(fine,
                      "allfold: an operator in fused{...} is not declared associative on what it folds: wrap it in "
                      "allfold::associative(op), or allfold::commutative(op)");
    else if constexpr (binary_operation<operation, T>)
        static_assert(fine,
                      "allfold: this operator is not declared associative: write allfold::associative(op), or "
                      "allfold::commutative(op) if the order of operands does not matter either");
    else if constexpr (nearly_folds_stretches<operation, T>)
        static_assert(fine,
                      "allfold: an operator that takes many rows at once must be callable as op(stretch<const T> left, "
                      "stretch<const T> right, stretch<T> out) when const; in_out(f) makes one from f(in, in_out)");
    else if constexpr (is_row<T>)
        static_assert(fine,
                      "allfold: the operator can be called neither as op(left, right, out) on these rows nor as "
                      "T(const T&, const T&) on each of their element types: give it such a const call operator");
    else
        static_assert(fine,
                      "allfold: the operator cannot be called as T(const T&, const T&) on this element type: give it "
                      "such a const call operator");
    return false;
}

/// Whether `Op` is a commutative operator on T; a compile-time error if it is not.
template <class Op, class T>
[[nodiscard]] consteval bool require_commutative() {
    constexpr bool fine = commutative_operator<Op, T>;
    if constexpr (!associative_operator<Op, T>)
        return require_associative<Op, T>();
    else
        static_assert(fine,
                      "allfold: this schedule rotates the order of the operands and needs a commutative operator: "
                      "write allfold::commutative(op) if it is, or choose one that keeps rank order: "
                      "recursive_doubling{}, recursive_halving{}, direct{}");
    return fine;
}

}  // namespace detail
}  // namespace allfold
