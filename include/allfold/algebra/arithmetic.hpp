// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <bit>
#include <compare>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "allfold/algebra/laws.hpp"

/// @file
/// sum, product, min and max: ordinary values, one for all element types.

namespace allfold {
namespace detail {

/// bool is a truth value here, not a number: a sum of bools is a logical_or, or a sum of ints.
template <class T>
concept integer = std::integral<T> && !std::same_as<T, bool>;

/// std::complex and its look-alikes, known by their shape: who uses <complex> includes it, nobody else pays for it.
template <class T>
concept complex_number = std::floating_point<typename T::value_type> && requires(const T& z) {
    { z.real() } -> std::same_as<typename T::value_type>;
    { z.imag() } -> std::same_as<typename T::value_type>;
    T(z.real(), z.imag());
};

template <class T>
concept number = integer<T> || std::floating_point<T> || complex_number<T>;

/// Where integers are added and multiplied: overflow wraps, and no short type is promoted to a signed int.
template <integer T>
using wrapping = std::common_type_t<std::make_unsigned_t<T>, unsigned>;

/// Laws of + and · on numbers. Nothing is known of other types: their + may be a concatenation.
template <class T>
inline constexpr law_set number_laws = integer<T>  ? law::associative | law::commutative | law::exact
                                       : number<T> ? law::associative | law::commutative
                                                   : law_set{};

/// Laws of the lesser and the greater of two. Values that are merely equivalent can be told apart by the order of the
/// operands; a partial order (one with a NaN in it) is not associative.
template <class T>
inline constexpr law_set order_laws =
    std::floating_point<T> || std::three_way_comparable<T, std::strong_ordering>
        ? law::associative | law::commutative | law::idempotent | law::exact
    : std::three_way_comparable<T, std::weak_ordering> ? law::associative | law::idempotent | law::exact
                                                       : law_set{};

template <class T>
concept less_than_comparable = requires(const T& a, const T& b) {
    { b < a } -> std::convertible_to<bool>;
};

template <class T>
concept bounded = std::numeric_limits<T>::is_bounded || std::numeric_limits<T>::has_infinity;

template <class T>
using bits_of = std::conditional_t<sizeof(T) == sizeof(std::uint32_t), std::uint32_t, std::uint64_t>;

/// Whether T is as wide as an unsigned integer; long double is not.
template <class T>
inline constexpr bool has_bits = sizeof(T) == sizeof(bits_of<T>);

/// x; or -0 where x and y are zeros of different sign. x == y.
template <std::floating_point T>
[[nodiscard]] constexpr T lower_of_equal(T x, T y) noexcept {
    if constexpr (has_bits<T>)
        return std::bit_cast<T>(std::bit_cast<bits_of<T>>(x) | std::bit_cast<bits_of<T>>(y));
    else
        return x == 0 ? -(-x - y) : x;
}

/// x; or +0 where x and y are zeros of different sign. x == y.
template <std::floating_point T>
[[nodiscard]] constexpr T upper_of_equal(T x, T y) noexcept {
    if constexpr (has_bits<T>)
        return std::bit_cast<T>(std::bit_cast<bits_of<T>>(x) & std::bit_cast<bits_of<T>>(y));
    else
        return x == 0 ? x + y : x;
}

/// `ordered`, or the one NaN that min and max know where a or b is one.
template <std::floating_point T>
[[nodiscard]] constexpr T unless_nan(T a, T b, T ordered) noexcept {
    const bool unordered = (a != a) | (b != b);
    return unordered ? std::numeric_limits<T>::quiet_NaN() : ordered;
}

// Each of the two takes the winner twice. The two differ only where a == b; what is then left to decide is the sign of
// a zero. Selects instead of branches, so that loops over them are vectorised.

template <std::floating_point T>
[[nodiscard]] constexpr T lesser(T a, T b) noexcept {
    return unless_nan(a, b, lower_of_equal(a < b ? a : b, b < a ? b : a));
}

template <std::floating_point T>
[[nodiscard]] constexpr T greater(T a, T b) noexcept {
    return unless_nan(a, b, upper_of_equal(a < b ? b : a, b < a ? a : b));
}

}  // namespace detail

/// a + b. Integers wrap around; the sum of floats depends on the bracketing. On other types with a + it can be called,
/// but laws are not declared: write `associative(sum{})` or `commutative(sum{})` for your own.
struct sum {
    template <class T>
        requires(!std::same_as<T, bool>) && requires(const T& a, const T& b) {
            { a + b } -> std::convertible_to<T>;
        }
    [[nodiscard]] constexpr T operator()(const T& a, const T& b) const {
        if constexpr (detail::integer<T>) {
            using wide = detail::wrapping<T>;
            return static_cast<T>(static_cast<wide>(a) + static_cast<wide>(b));
        } else {
            return static_cast<T>(a + b);
        }
    }

    template <class T>
    static constexpr law_set laws_on = detail::number_laws<T>;

    template <detail::number T>
    [[nodiscard]] static constexpr T identity() {
        return T{0};
    }
};

/// a · b. As `sum`: integers wrap around, laws are declared for numbers.
struct product {
    template <class T>
        requires(!std::same_as<T, bool>) && requires(const T& a, const T& b) {
            { a* b } -> std::convertible_to<T>;
        }
    [[nodiscard]] constexpr T operator()(const T& a, const T& b) const {
        if constexpr (detail::integer<T>) {
            using wide = detail::wrapping<T>;
            return static_cast<T>(static_cast<wide>(a) * static_cast<wide>(b));
        } else {
            return static_cast<T>(a * b);
        }
    }

    template <class T>
    static constexpr law_set laws_on = detail::number_laws<T>;

    template <detail::number T>
    [[nodiscard]] static constexpr T identity() {
        return T{1};
    }
};

/// The lesser of two by <, the left one where they are equivalent. Of floats: -0 is less than +0, and a NaN on either
/// side gives NaN (always the same one), so that the result depends neither on order nor on bracketing.
/// Laws are declared where the order is total or weak, which is read off operator<=>.
struct min {
    template <detail::less_than_comparable T>
    [[nodiscard]] constexpr T operator()(const T& a, const T& b) const {
        if constexpr (std::floating_point<T>)
            return detail::lesser(a, b);
        else
            return b < a ? b : a;
    }

    template <class T>
    static constexpr law_set laws_on = detail::order_laws<T>;

    template <detail::bounded T>
    [[nodiscard]] static constexpr T identity() {
        using limits = std::numeric_limits<T>;
        return limits::has_infinity ? limits::infinity() : limits::max();
    }
};

/// The greater of two by <, the left one where they are equivalent. Zeros, NaN and laws as with `min`.
struct max {
    template <detail::less_than_comparable T>
    [[nodiscard]] constexpr T operator()(const T& a, const T& b) const {
        if constexpr (std::floating_point<T>)
            return detail::greater(a, b);
        else
            return a < b ? b : a;
    }

    template <class T>
    static constexpr law_set laws_on = detail::order_laws<T>;

    template <detail::bounded T>
    [[nodiscard]] static constexpr T identity() {
        using limits = std::numeric_limits<T>;
        return limits::has_infinity ? -limits::infinity() : limits::lowest();
    }
};

}  // namespace allfold
