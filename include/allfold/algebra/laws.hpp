// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

/// @file
/// The laws an operator declares. No compiler can infer them, so the safe answer is the default: none hold.

namespace allfold {

/// One algebraic law. `check_laws` tests declared laws on samples. For floating point elements, the first two hold up
/// to rounding (even a product of complex numbers may round differently if its factors are swapped).
enum class law : unsigned {
    associative = 1,  ///< (a ∘ b) ∘ c = a ∘ (b ∘ c): required by every collective
    commutative = 2,  ///< a ∘ b = b ∘ a: allows schedules that rotate the order, such as a ring
    idempotent = 4,   ///< a ∘ a = a: allows overlapping windows of ranks
    exact = 8,        ///< associativity holds to the last bit: the result does not depend on the bracketing
};

/// A set of laws: `law::associative | law::commutative`.
struct law_set {
    unsigned bits = 0;

    constexpr law_set() = default;
    constexpr law_set(law l) noexcept : bits(static_cast<unsigned>(l)) {}
    [[nodiscard]] constexpr bool has(law l) const noexcept { return (bits & static_cast<unsigned>(l)) != 0; }
    [[nodiscard]] constexpr law_set without(law l) const noexcept {
        law_set rest = *this;
        rest.bits &= ~static_cast<unsigned>(l);
        return rest;
    }
    friend constexpr law_set operator|(law_set a, law_set b) noexcept {
        a.bits |= b.bits;
        return a;
    }
    friend constexpr bool operator==(law_set, law_set) = default;
};
/// Both laws.
[[nodiscard]] constexpr law_set operator|(law a, law b) noexcept { return law_set(a) | law_set(b); }

}  // namespace allfold
