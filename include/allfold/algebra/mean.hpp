// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <concepts>

#include "allfold/algebra/arithmetic.hpp"

/// @file
/// The mean of floating point or complex numbers.

namespace allfold {
namespace detail {

/// Integers are excluded: the mean of integers is not an integer.
template <class T>
concept divisible = real_number<T> || complex_number<T>;

}  // namespace detail

/// Folds with `sum` and divides the result once, at the end, by the number of contributions. There is no mean for
/// integers: convert them to floating point, or fold with `sum` and divide as you see fit. The mean of no contributions
/// is NaN.
struct mean {
    template <detail::divisible T>
    [[nodiscard]] constexpr T operator()(const T& a, const T& b) const {
        return sum{}(a, b);
    }

    template <detail::real_number T>
    [[nodiscard]] static constexpr T lower(const T& total, int contributions) {
        return total / static_cast<T>(contributions);
    }
    template <detail::complex_number T>
    [[nodiscard]] static constexpr T lower(const T& total, int contributions) {
        return total / static_cast<typename T::value_type>(contributions);
    }

    template <class T>
    static constexpr law_set laws_on = detail::divisible<T> ? detail::number_laws<T> : law_set{};

    template <detail::divisible T>
    [[nodiscard]] static constexpr T identity() {
        return sum::identity<T>();
    }
};

}  // namespace allfold
