// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <functional>
#include <string>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/logic.hpp"
#include "allfold/algebra/operator.hpp"

/// @file
/// Laws of std::plus, multiplies, logical_and, logical_or, bit_and, bit_or and bit_xor, both as `std::plus<>` on any T
/// and as `std::plus<T>` on T. minus, divides, less and the others are not associative and get none.
///
/// Beware: std::plus and std::multiplies on signed integers are undefined if they overflow; `sum` and `product` wrap.

namespace allfold {
namespace detail {

template <template <class> class Functor, class T>
inline constexpr law_set functor_laws{};

template <class T>
inline constexpr law_set functor_laws<std::plus, T> = number_laws<T>;
/// Concatenation: exact, because it does not matter where a word is split, but not commutative.
template <class Char, class Traits, class Allocator>
inline constexpr law_set functor_laws<std::plus, std::basic_string<Char, Traits, Allocator>> =
    law::associative | law::exact;
template <class T>
inline constexpr law_set functor_laws<std::multiplies, T> = number_laws<T>;
template <class T>
inline constexpr law_set functor_laws<std::logical_and, T> = logical_laws<T>;
template <class T>
inline constexpr law_set functor_laws<std::logical_or, T> = logical_laws<T>;
template <class T>
inline constexpr law_set functor_laws<std::bit_and, T> = bit_laws<T>;
template <class T>
inline constexpr law_set functor_laws<std::bit_or, T> = bit_laws<T>;
template <class T>
inline constexpr law_set functor_laws<std::bit_xor, T> = bit_xor_laws<T>;

}  // namespace detail

/// The laws of `std::plus<>` and its kin on the types for which they hold.
template <template <class> class Functor, class T>
    requires(detail::functor_laws<Functor, T> != law_set{})
struct operator_laws<Functor<void>, T> {
    static constexpr law_set value = detail::functor_laws<Functor, T>;
};

/// The same for `std::plus<T>` and its kin.
template <template <class> class Functor, class T>
    requires(detail::functor_laws<Functor, T> != law_set{})
struct operator_laws<Functor<T>, T> {
    static constexpr law_set value = detail::functor_laws<Functor, T>;
};

}  // namespace allfold
