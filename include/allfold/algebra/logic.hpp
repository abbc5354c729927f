// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <concepts>
#include <cstddef>
#include <type_traits>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/laws.hpp"

/// @file
/// Truth values and bits: logical_and, logical_or, logical_xor and bit_and, bit_or, bit_xor.

namespace allfold {
namespace detail {

template <class T>
concept truth_value = std::same_as<T, bool> || integer<T> || real_number<T>;

/// Laws of "and" and "or" on truth values. Any nonzero number is true, but results are 1, so that 2 ∘ 2 is not 2; for
/// the same reason only bool has an identity.
template <class T>
inline constexpr law_set logical_laws =
    std::same_as<T, bool> ? law::associative | law::commutative | law::exact | law::idempotent
    : truth_value<T>      ? law::associative | law::commutative | law::exact
                          : law_set{};

template <class T>
concept bit_pattern = std::same_as<T, bool> || integer<T> || std::same_as<T, std::byte>;

/// Laws of "exclusive or" on bits.
template <class T>
inline constexpr law_set bit_xor_laws = bit_pattern<T> ? law::associative | law::commutative | law::exact : law_set{};

/// Laws of "and" and "or" on bits.
template <class T>
inline constexpr law_set bit_laws = bit_pattern<T> ? bit_xor_laws<T> | law::idempotent : law_set{};

}  // namespace detail

/// Whether both are true (not zero): true or false, as T.
struct logical_and {
    template <detail::truth_value T>
    [[nodiscard]] constexpr T operator()(T a, T b) const noexcept {
        return static_cast<T>((a != T{}) & (b != T{}));
    }

    template <class T>
    static constexpr law_set laws_on = detail::logical_laws<T>;

    template <std::same_as<bool> T>
    [[nodiscard]] static constexpr T identity() noexcept {
        return true;
    }
};

/// Whether one or both are true (not zero): true or false, as T.
struct logical_or {
    template <detail::truth_value T>
    [[nodiscard]] constexpr T operator()(T a, T b) const noexcept {
        return static_cast<T>((a != T{}) | (b != T{}));
    }

    template <class T>
    static constexpr law_set laws_on = detail::logical_laws<T>;

    template <std::same_as<bool> T>
    [[nodiscard]] static constexpr T identity() noexcept {
        return false;
    }
};

/// Whether exactly one is true (not zero): true or false, as T. Over many operands: whether an odd number of them is
/// true.
struct logical_xor {
    template <detail::truth_value T>
    [[nodiscard]] constexpr T operator()(T a, T b) const noexcept {
        return static_cast<T>((a != T{}) != (b != T{}));
    }

    template <class T>
    static constexpr law_set laws_on =
        detail::truth_value<T> ? law::associative | law::commutative | law::exact : law_set{};

    template <std::same_as<bool> T>
    [[nodiscard]] static constexpr T identity() noexcept {
        return false;
    }
};

/// a & b. It can be called on types other than integers and std::byte (a bitset, say), but no laws are declared for
/// them: write `commutative(bit_and{})`.
struct bit_and {
    template <class T>
        requires requires(const T& a, const T& b) {
            { a& b } -> std::convertible_to<T>;
        }
    [[nodiscard]] constexpr T operator()(const T& a, const T& b) const {
        return static_cast<T>(a & b);
    }

    template <class T>
    static constexpr law_set laws_on = detail::bit_laws<T>;

    template <detail::bit_pattern T>
    [[nodiscard]] static constexpr T identity() noexcept {
        if constexpr (std::same_as<T, bool>)
            return true;
        else
            return static_cast<T>(~T{});
    }
};

/// a | b. Types as for `bit_and`.
struct bit_or {
    template <class T>
        requires requires(const T& a, const T& b) {
            { a | b } -> std::convertible_to<T>;
        }
    [[nodiscard]] constexpr T operator()(const T& a, const T& b) const {
        return static_cast<T>(a | b);
    }

    template <class T>
    static constexpr law_set laws_on = detail::bit_laws<T>;

    template <detail::bit_pattern T>
    [[nodiscard]] static constexpr T identity() noexcept {
        return T{};
    }
};

/// a ^ b. Types as for `bit_and`.
struct bit_xor {
    template <class T>
        requires requires(const T& a, const T& b) {
            { a ^ b } -> std::convertible_to<T>;
        }
    [[nodiscard]] constexpr T operator()(const T& a, const T& b) const {
        return static_cast<T>(a ^ b);
    }

    template <class T>
    static constexpr law_set laws_on = detail::bit_xor_laws<T>;

    template <detail::bit_pattern T>
    [[nodiscard]] static constexpr T identity() noexcept {
        return T{};
    }
};

}  // namespace allfold
