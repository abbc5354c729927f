// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>
#include <type_traits>
#include <utility>

/// @file
/// Vectors that fill one register, using the vector extensions of GCC and Clang, and their exp.

namespace attention::simd {

/// Bytes of the widest vector register of the target processor, the same for all files of a program.
#if defined(__AVX512F__)
inline constexpr std::size_t register_bytes = 64;
#elif defined(__AVX__)
inline constexpr std::size_t register_bytes = 32;
#else
inline constexpr std::size_t register_bytes = 16;
#endif

/// Operators work element by element.
template <class Element, std::size_t Bytes = register_bytes>
using vector [[gnu::vector_size(Bytes)]] = Element;

template <class Vector>
using element = std::remove_cvref_t<decltype(std::declval<Vector>()[0])>;

template <class Vector>
inline constexpr std::size_t lanes = sizeof(Vector) / sizeof(element<Vector>);

/// The elements of one vector, folded from the first to the last.
template <class Vector, class Fold>
[[nodiscard]] element<Vector> fold(const Vector& x, Fold operation) noexcept {
    element<Vector> result = x[0];
    for (std::size_t lane = 1; lane < lanes<Vector>; ++lane) result = operation(result, x[lane]);
    return result;
}

namespace detail {

/// exp(x) = 2^n exp(r) with n = round(x / ln 2) and |r| <= ln 2 / 2. exp(r) is computed from as many terms of its
/// series as T can distinguish from the whole series. ln 2 is given in two parts; n times the first part is exact. exp
/// of anything below `lowest` is less than half of the smallest number.
template <class T>
struct exp_constants;
template <>
struct exp_constants<float> {
    using bits = std::uint32_t;
    static constexpr float ln2_high = 0x163 / 0x1p9f, ln2_low = -0x1.bd0106p-13f;
    static constexpr float lowest = -0x1.9fe368p+6f;
    static constexpr int degree = 7;
};
template <>
struct exp_constants<double> {
    using bits = std::uint64_t;
    static constexpr double ln2_high = 0x162e42fee / 0x1p33, ln2_low = 0x1.a39ef35793c76p-33;
    static constexpr double lowest = -0x1.74910d52d3051p+9;
    static constexpr int degree = 13;
};

/// 1 / k!, the coefficient of r^k in the series of exp.
template <class T>
inline constexpr auto exp_series = [] {
    std::array<T, exp_constants<T>::degree + 1> terms{1};
    double factorial = 1;
    for (std::size_t k = 1; k < terms.size(); ++k) terms[k] = static_cast<T>(1 / (factorial *= static_cast<double>(k)));
    return terms;
}();

}  // namespace detail

/// Sets x to exp(x), for x <= 0 or NaN, within 2 units in the last place: 1.2 is the worst of all floats, and of 20
/// million doubles. Results below the normal numbers are correct as well, -inf gives 0, and NaN stays NaN.
template <class Vector>
inline void exp(Vector& x) noexcept {
    using T = element<Vector>;
    using constants = detail::exp_constants<T>;
    using bits = typename constants::bits;
    using integers = vector<bits, sizeof(Vector)>;
    constexpr int mantissa = std::numeric_limits<T>::digits - 1;
    constexpr T to_integer = T(1.5) * static_cast<T>(bits{1} << mantissa);  // adding it rounds to an integer

    const Vector shifted = x * std::numbers::log2e_v<T> + to_integer;
    const Vector n = shifted - to_integer;
    const Vector r = (x - n * constants::ln2_high) - n * constants::ln2_low;
    constexpr auto& terms = detail::exp_series<T>;
    Vector series = terms.back() + Vector{};
    for (std::size_t k = terms.size() - 1; k-- > 0;) series = series * r + terms[k];
    // The lowest bits of `shifted` are n: shifted up, they are the exponent of 2^n, minus that of 1. With 2^64 in place
    // of 1, that is a normal number even if the result is not. (`std::bit_cast` would take and return vectors by value,
    // which is a different calling convention for each processor.)
    const integers power = (__builtin_bit_cast(integers, shifted) << mantissa) + std::bit_cast<bits>(T(0x1p64));
    x = x < constants::lowest ? Vector{} : series * __builtin_bit_cast(Vector, power) * T(0x1p-64);
}

}  // namespace attention::simd
