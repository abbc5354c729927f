// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>

#include "allfold/algebra/arithmetic.hpp"

/// @file
/// min_loc and max_loc: the extreme value and where it was found.

namespace allfold {

/// A value and the index where it was found, `located{0.5, 7}`: the element type of `min_loc` and `max_loc`. What the
/// index counts is up to the caller: elements, ranks, rows.
template <class T>
struct located {
    using value_type = T;

    T value;
    std::int64_t index;

    friend constexpr bool operator==(const located&, const located&) = default;
};
/// Lets `located{value, index}` deduce its type.
template <class T>
located(T, std::int64_t) -> located<T>;

namespace detail {

/// For zeros only: conversion to float keeps the sign.
template <real_number T>
[[nodiscard]] constexpr bool is_negative_zero(T zero) noexcept {
    return std::bit_cast<std::uint32_t>(static_cast<float>(zero)) != 0;
}

/// The order in which `min` ranks values: by <, and for floats -0 below +0.
template <class T>
[[nodiscard]] constexpr bool below(const T& a, const T& b) {
    if constexpr (real_number<T>)
        return a < b || (a == 0 && b == 0 && detail::is_negative_zero(a) && !detail::is_negative_zero(b));
    else
        return a < b;
}

template <class T>
[[nodiscard]] constexpr bool is_nan(const T& value) noexcept {
    if constexpr (real_number<T>)
        return value != value;
    else
        return false;
}

/// NaN before any number, then by `better(value, other)`, then the lower index.
template <class T, class Better>
[[nodiscard]] constexpr located<T> best_of(const located<T>& a, const located<T>& b, Better better) {
    const bool a_is_nan = detail::is_nan(a.value), b_is_nan = detail::is_nan(b.value);
    if (a_is_nan != b_is_nan) return a_is_nan ? a : b;
    if (better(a.value, b.value)) return a;
    if (better(b.value, a.value)) return b;
    return b.index < a.index ? b : a;
}

template <class T>
inline constexpr law_set location_laws{};
template <class T>
inline constexpr law_set location_laws<located<T>> = order_laws<T>;

template <class T>
concept bounded_location = bounded<typename T::value_type> && std::same_as<T, located<typename T::value_type>>;

/// The index of the identity, greater than that of any value that was found.
inline constexpr std::int64_t nowhere = std::numeric_limits<std::int64_t>::max();

}  // namespace detail

/// The least value, and of equal ones the one with the lowest index. Ranks values as `min` does: -0 is less than +0,
/// and NaN wins over every number; of several NaN the one with the lowest index wins.
struct min_loc {
    template <detail::less_than_comparable T>
    [[nodiscard]] constexpr located<T> operator()(const located<T>& a, const located<T>& b) const {
        return detail::best_of(a, b, [](const T& x, const T& y) { return detail::below(x, y); });
    }

    template <class T>
    static constexpr law_set laws_on = detail::location_laws<T>;

    template <detail::bounded_location T>
    [[nodiscard]] static constexpr T identity() {
        return {min::identity<typename T::value_type>(), detail::nowhere};
    }
};

/// The greatest value, and of equal ones the one with the lowest index. Zeros and NaN as for `min_loc`.
struct max_loc {
    template <detail::less_than_comparable T>
    [[nodiscard]] constexpr located<T> operator()(const located<T>& a, const located<T>& b) const {
        return detail::best_of(a, b, [](const T& x, const T& y) { return detail::below(y, x); });
    }

    template <class T>
    static constexpr law_set laws_on = detail::location_laws<T>;

    template <detail::bounded_location T>
    [[nodiscard]] static constexpr T identity() {
        return {max::identity<typename T::value_type>(), detail::nowhere};
    }
};

}  // namespace allfold
