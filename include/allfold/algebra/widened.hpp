// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <concepts>
#include <limits>
#include <type_traits>
#include <utility>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/laws.hpp"
#include "allfold/algebra/operator.hpp"

/// @file
/// Narrow elements, folded in a wider type.

namespace allfold {
namespace detail {

template <integer T>
[[nodiscard]] constexpr bool is_negative(T x) noexcept {
    if constexpr (T(-1) < T(0))
        return x < T(0);
    else
        return false;
}

/// A cast that saturates: a number out of T's range becomes its least or greatest value, and NaN becomes 0.
template <integer T, integer Wide>
[[nodiscard]] constexpr T clamped_to(Wide x) noexcept {
    const T same = static_cast<T>(x);
    if (static_cast<Wide>(same) == x && detail::is_negative(same) == detail::is_negative(x)) return same;
    return detail::is_negative(x) ? least_value<T>() : greatest_value<T>();
}
template <integer T, real_number Wide>
[[nodiscard]] constexpr T clamped_to(Wide x) noexcept {
    if (x >= static_cast<Wide>(greatest_value<T>())) return greatest_value<T>();
    if (x <= static_cast<Wide>(least_value<T>())) return least_value<T>();
    return x == x ? static_cast<T>(x) : T(0);
}

/// A number that is yet to be rounded to the element type of the output.
template <class Wide>
struct unrounded {
    Wide value;

    template <class T>
        requires requires(const Wide& x) { static_cast<T>(x); }
    constexpr operator T() const {
        if constexpr (integer<T> && (integer<Wide> || real_number<Wide>))
            return detail::clamped_to<T>(value);
        else
            return static_cast<T>(value);
    }
};

/// Whether numbers of type Wide, or its parts if it is complex, can hold every value of the integer type T.
template <class T, class Wide>
inline constexpr bool holds_integers = [] {
    if constexpr (integer<Wide>)
        return !(T(-1) < T(0)) || Wide(-1) < Wide(0);
    else if constexpr (real_number<Wide>)
        return !std::numeric_limits<Wide>::is_specialized ||
               std::numeric_limits<T>::digits <= std::numeric_limits<Wide>::digits;
    else if constexpr (requires { typename Wide::value_type; })
        return holds_integers<T, typename Wide::value_type>;
    else
        return true;  // a class knows what it holds
}();

/// Converts to Wide and is narrower, so that no value is lost. An integer Wide would lose the fractions of real
/// numbers.
template <class T, class Wide>
concept narrower = sizeof(T) < sizeof(Wide) && !(real_number<T> && integer<Wide>) &&
                   (!integer<T> || holds_integers<T, Wide>) && requires(const T& x) { static_cast<Wide>(x); };

}  // namespace detail

/// `Op`, computed in `Wide`: `widened<sum, float>` folds 16-bit numbers (_Float16, __bf16, std::float16_t, or a class
/// that converts to and from float) in float.
///
///     reduce_scatter(comm, gradients, shard, widened<sum, float>());  // of halves to halves, or to floats
///
/// Rounding: an element is converted to `Wide` before the first fold, exactly; each fold rounds as `Op` does on `Wide`;
/// the result is rounded to the type of the output once, at the end, or not at all if the output holds `Wide`s. This is
/// the case for every algorithm, P and order. For sums of halves, 2048 + 1 + 1 is 2050, but 2048 if each fold is
/// rounded to 11 bits. A conversion to integers truncates towards 0 and saturates.
///
/// On the wire: elements are sent as they are, at 2 bytes each for 16-bit types, if each rank folds its own block of
/// all operands at once. This is so in `reduce_scatter`, and in an `all_reduce` of more than a few KiB whose ranks
/// share memory or number at most 16 and whose input and output hold the same type; if ranks share memory, nothing is
/// copied. In all other cases partial folds are sent, which must be `Wide`s: 4 bytes each for float, plus twice that in
/// memory for the duration of the call.
///
/// Laws, identity and `lower` are those of `Op` on `Wide`: `widened<mean, float>` divides before it rounds.
template <class Op, class Wide>
struct widened {
    [[no_unique_address]] Op op{};

    template <std::same_as<Wide> T>
        requires binary_operation<Op, T>
    [[nodiscard]] constexpr T operator()(const T& a, const T& b) const {
        return detail::fold_two<T>(op, a, b);
    }

    template <class T>
    static constexpr law_set laws_on = std::same_as<T, Wide> ? laws_of<Op, Wide> : law_set{};

    [[nodiscard]] constexpr bool commutative() const
        requires detail::says_commutative<Op, Wide>
    {
        return detail::commutes<Wide>(op);
    }

    template <std::same_as<Wide> T>
        requires operator_with_identity<Op, T>
    [[nodiscard]] constexpr T identity() const {
        return identity_of<T>(op);
    }

    template <detail::narrower<Wide> T>
    [[nodiscard]] constexpr Wide lift(const T& x) const {
        return static_cast<Wide>(x);
    }
    template <std::same_as<Wide> T>
    [[nodiscard]] constexpr detail::unrounded<Wide> lower(const T& state, [[maybe_unused]] int contributions) const {
        if constexpr (lowering_operator<Op, Wide>)
            return {static_cast<Wide>(op.lower(state, contributions))};
        else
            return {state};
    }
};

}  // namespace allfold
