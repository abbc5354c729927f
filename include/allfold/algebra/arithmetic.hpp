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
/// sum, product, min and max: ordinary values, each for all element types.

namespace allfold {
namespace detail {

#ifdef __SIZEOF_INT128__
__extension__ using int128 = __int128;
__extension__ using uint128 = unsigned __int128;
/// The compiler's integers that <type_traits> and <limits> do not recognise as such in strict standard mode.
template <class T>
inline constexpr bool is_wide_integer = std::same_as<T, int128> || std::same_as<T, uint128>;
#else
template <class T>
inline constexpr bool is_wide_integer = false;
#endif

/// bool is a truth value here, not a number: a sum of bools is a logical_or, or a sum of ints.
template <class T>
concept integer = (std::integral<T> && !std::same_as<T, bool>) || is_wide_integer<T>;

/// Non-class types that compute with fractions, including _Float16, __bf16 and others that <type_traits> of C++20 does
/// not count as floating point.
template <class T>
concept real_number = std::floating_point<T> || (!std::is_class_v<T> && !std::same_as<T, bool> && requires(const T& x) {
                          { x* x } -> std::same_as<T>;
                          { x < x } -> std::same_as<bool>;
                          requires static_cast<T>(0.5) != static_cast<T>(0);
                      });

/// std::complex and types like it, recognised by shape, so that only users of <complex> pay for including it.
template <class T>
concept complex_number = real_number<typename T::value_type> && requires(const T& z) {
    { z.real() } -> std::same_as<typename T::value_type>;
    { z.imag() } -> std::same_as<typename T::value_type>;
    T(z.real(), z.imag());
};

template <class T>
concept number = integer<T> || real_number<T> || complex_number<T>;

/// The type in which integers are added and multiplied: overflow wraps, and no short type is promoted to a signed int.
template <integer T>
struct wrapping_integer {
    using type = std::common_type_t<std::make_unsigned_t<T>, unsigned>;
};
#ifdef __SIZEOF_INT128__
template <integer T>
    requires is_wide_integer<T>
struct wrapping_integer<T> {
    using type = uint128;
};
#endif
template <integer T>
using wrapping = typename wrapping_integer<T>::type;

/// a · b, for floating point numbers, where the compiler may not fuse it with what follows: a sum with -0 is exact.
template <class T>
[[nodiscard]] T rounded_product(T a, T b) noexcept {
    if constexpr (std::same_as<T, double>)
        return __builtin_fma(a, b, -0.0);
    else
        return __builtin_fmaf(a, b, -0.0F);
}
/// Whether i · i = -1: other types may have the shape of complex numbers.
template <complex_number T>
inline const bool multiplies_as_complex = (T(0, 1) * T(0, 1)).real() == typename T::value_type(-1);
/// a · b. A processor with fused operations can round this in several ways, of which the compiler chooses one anew
/// wherever it inlines a product: ranks would differ in the last bit. So each of the four products is rounded.
template <complex_number T>
[[nodiscard]] constexpr T complex_product(const T& a, const T& b) {
#if defined(__FP_FAST_FMA) || defined(__FMA__) || defined(__aarch64__)
    using part = typename T::value_type;
    if constexpr (std::same_as<part, double> || std::same_as<part, float>)
        if (!std::is_constant_evaluated() && multiplies_as_complex<T>) {
            const part real = rounded_product(a.real(), b.real()) - rounded_product(a.imag(), b.imag());
            const part imaginary = rounded_product(a.real(), b.imag()) + rounded_product(a.imag(), b.real());
            if (real == real || imaginary == imaginary) return T(real, imaginary);
        }
#endif
    return a * b;  // also where infinities have made NaN of both parts
}

/// Laws of + and · on numbers. Nothing is assumed about other types: their + may be a concatenation.
template <class T>
inline constexpr law_set number_laws = integer<T>  ? law::associative | law::commutative | law::exact
                                       : number<T> ? law::associative | law::commutative
                                                   : law_set{};

/// Laws of min and max. Values that are equivalent but not equal expose the order of the operands; a partial order (one
/// with NaN) is not associative.
template <class T>
inline constexpr law_set order_laws =
    real_number<T> || std::three_way_comparable<T, std::strong_ordering>
        ? law::associative | law::commutative | law::idempotent | law::exact
    : std::three_way_comparable<T, std::weak_ordering> ? law::associative | law::idempotent | law::exact
                                                       : law_set{};

template <class T>
concept less_than_comparable = requires(const T& a, const T& b) {
    { b < a } -> std::convertible_to<bool>;
};

template <class T>
concept bounded =
    std::numeric_limits<T>::is_bounded || std::numeric_limits<T>::has_infinity || is_wide_integer<T> || real_number<T>;

/// The greatest value of T: infinity if it has one.
template <bounded T>
[[nodiscard]] constexpr T greatest_value() {
    using limits = std::numeric_limits<T>;
    if constexpr (is_wide_integer<T>)
        return static_cast<T>(static_cast<wrapping<T>>(-1) >> (T(-1) < T(0) ? 1 : 0));
    else if constexpr (limits::is_specialized)
        return limits::has_infinity ? limits::infinity() : limits::max();
    else
        return static_cast<T>(std::numeric_limits<float>::infinity());
}
/// The least value of T: -infinity if it has one.
template <bounded T>
[[nodiscard]] constexpr T least_value() {
    using limits = std::numeric_limits<T>;
    if constexpr (is_wide_integer<T>)
        return T(-1) < T(0) ? -greatest_value<T>() - 1 : T(0);
    else if constexpr (limits::is_specialized)
        return limits::has_infinity ? -limits::infinity() : limits::lowest();
    else
        return -greatest_value<T>();
}

template <class T>
using bits_of =
    std::conditional_t<sizeof(T) == sizeof(std::uint16_t), std::uint16_t,
                       std::conditional_t<sizeof(T) == sizeof(std::uint32_t), std::uint32_t, std::uint64_t>>;

/// Whether T has the width of an unsigned integer; long double does not.
template <class T>
inline constexpr bool has_bits = sizeof(T) == sizeof(bits_of<T>);

/// Requires x == y. Returns x, or -0 if x and y are zeros of different sign.
template <real_number T>
[[nodiscard]] constexpr T lower_of_equal(T x, T y) noexcept {
    if constexpr (has_bits<T>)
        return std::bit_cast<T>(static_cast<bits_of<T>>(std::bit_cast<bits_of<T>>(x) | std::bit_cast<bits_of<T>>(y)));
    else
        return x == 0 ? -(-x - y) : x;
}

/// Requires x == y. Returns x, or +0 if x and y are zeros of different sign.
template <real_number T>
[[nodiscard]] constexpr T upper_of_equal(T x, T y) noexcept {
    if constexpr (has_bits<T>)
        return std::bit_cast<T>(static_cast<bits_of<T>>(std::bit_cast<bits_of<T>>(x) & std::bit_cast<bits_of<T>>(y)));
    else
        return x == 0 ? x + y : x;
}

/// `ordered`, or, if a or b is NaN, the one NaN that min and max return.
template <real_number T>
[[nodiscard]] constexpr T unless_nan(T a, T b, T ordered) noexcept {
    const bool unordered = (a != a) | (b != b);
    return unordered ? static_cast<T>(std::numeric_limits<float>::quiet_NaN()) : ordered;
}

// Both functions select the winner twice. The two selections differ only if a == b, which leaves just the sign of a
// zero to decide. They are selects rather than branches, so that loops over them vectorise.

template <real_number T>
[[nodiscard]] constexpr T lesser(T a, T b) noexcept {
    return detail::unless_nan(a, b, detail::lower_of_equal(a < b ? a : b, b < a ? b : a));
}

template <real_number T>
[[nodiscard]] constexpr T greater(T a, T b) noexcept {
    return detail::unless_nan(a, b, detail::upper_of_equal(a < b ? b : a, b < a ? a : b));
}

}  // namespace detail

/// a + b. Integers wrap around; the sum of floats depends on the bracketing. It can be called on any other type with a
/// +, but no laws are declared for those: write `associative(sum{})` or `commutative(sum{})` for your own types.
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
        return static_cast<T>(0);
    }
};

/// a · b. As for `sum`, integers wrap around, and laws are declared for numbers only.
struct product {
    template <class T>
        requires(!std::same_as<T, bool>) && requires(const T& a, const T& b) {
            { a* b } -> std::convertible_to<T>;
        }
    [[nodiscard]] constexpr T operator()(const T& a, const T& b) const {
        if constexpr (detail::integer<T>) {
            using wide = detail::wrapping<T>;
            return static_cast<T>(static_cast<wide>(a) * static_cast<wide>(b));
        } else if constexpr (detail::complex_number<T>) {
            return detail::complex_product(a, b);
        } else {
            return static_cast<T>(a * b);
        }
    }

    template <class T>
    static constexpr law_set laws_on = detail::number_laws<T>;

    template <detail::number T>
    [[nodiscard]] static constexpr T identity() {
        return static_cast<T>(1);
    }
};

/// The lesser of two by <, or the left one if they are equivalent. For floats, -0 is less than +0, and NaN on either
/// side gives NaN (always the same one), so that the result depends neither on order nor on bracketing. Laws are
/// declared if the order is total or weak, as operator<=> tells.
struct min {
    template <detail::less_than_comparable T>
    [[nodiscard]] constexpr T operator()(const T& a, const T& b) const {
        if constexpr (detail::real_number<T>)
            return detail::lesser(a, b);
        else
            return b < a ? b : a;
    }

    template <class T>
    static constexpr law_set laws_on = detail::order_laws<T>;

    template <detail::bounded T>
    [[nodiscard]] static constexpr T identity() {
        return detail::greatest_value<T>();
    }
};

/// The greater of two by <, or the left one if they are equivalent. Zeros, NaN and laws as for `min`.
struct max {
    template <detail::less_than_comparable T>
    [[nodiscard]] constexpr T operator()(const T& a, const T& b) const {
        if constexpr (detail::real_number<T>)
            return detail::greater(a, b);
        else
            return a < b ? b : a;
    }

    template <class T>
    static constexpr law_set laws_on = detail::order_laws<T>;

    template <detail::bounded T>
    [[nodiscard]] static constexpr T identity() {
        return detail::least_value<T>();
    }
};

}  // namespace allfold
