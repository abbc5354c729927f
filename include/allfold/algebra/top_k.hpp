// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <array>
#include <concepts>
#include <cstddef>
#include <span>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/laws.hpp"
#include "allfold/algebra/location.hpp"

/// @file
/// The greatest values of all ranks, and where they were found.

namespace allfold {
namespace detail {

/// The order in which `max_loc` ranks located values: NaN before any number, then the greater value, then the lower
/// index.
template <class T>
[[nodiscard]] constexpr bool ranks_before(const located<T>& a, const located<T>& b) {
    const bool a_is_nan = detail::is_nan(a.value), b_is_nan = detail::is_nan(b.value);
    if (a_is_nan != b_is_nan) return a_is_nan;
    if (detail::below(b.value, a.value)) return true;
    if (detail::below(a.value, b.value)) return false;
    return a.index < b.index;
}

/// The laws of max except a ∘ a = a: a value found twice counts twice.
template <class T>
inline constexpr law_set top_laws = [] {
    law_set laws = order_laws<T>;
    laws.bits &= ~law_set(law::idempotent).bits;
    return laws;
}();

}  // namespace detail

/// The K greatest values found, or fewer, with their indices, greatest first: see `found()`. Ranked as by `max_loc`: of
/// equal values the one with the lower index comes first, +0 is greater than -0, and NaN comes before all numbers.
template <detail::less_than_comparable T, std::size_t K>
    requires(K > 0)
struct top {
    std::array<located<T>, K> places{};  ///< unused entries are `located<T>()`
    std::size_t count = 0;               ///< number of entries in use

    [[nodiscard]] constexpr std::span<const located<T>> found() const noexcept { return {places.data(), count}; }

    /// Inserts x if it is among the K greatest, with at most K moves.
    constexpr void insert(const located<T>& x) {
        if (count == K && !detail::ranks_before(x, places[K - 1])) return;
        std::size_t at = count < K ? count++ : K - 1;
        for (; at > 0 && detail::ranks_before(x, places[at - 1]); --at) places[at] = places[at - 1];
        places[at] = x;
    }

    friend constexpr bool operator==(const top&, const top&) = default;
};

/// The K greatest values, and where they were found. Folds `top<T, K>` values, which each rank builds from its own
/// values:
///
///     top<float, 3> best;
///     for (std::int64_t i = 0; i < n; ++i) best.insert({scores[i], first + i});
///     all_reduce(comm, best, top_k<float, 3>());
///
/// or `located<T>` values, each of which becomes a `top<T, K>` in the output. An entry with the same value and index is
/// counted as often as it was found. The bits are the same for any order and bracketing, provided that no two NaN have
/// the same index. A fold takes at most K comparisons and moves.
template <detail::less_than_comparable T, std::size_t K>
struct top_k {
    using state = top<T, K>;

    [[nodiscard]] constexpr state operator()(const state& a, const state& b) const {
        state merged;
        const std::size_t together = a.count + b.count;
        merged.count = together < K ? together : K;
        std::size_t i = 0, j = 0;
        for (std::size_t to = 0; to < merged.count; ++to) {
            const bool takes_a = j == b.count || (i < a.count && !detail::ranks_before(b.places[j], a.places[i]));
            merged.places[to] = takes_a ? a.places[i++] : b.places[j++];
        }
        return merged;
    }

    static constexpr law_set laws = detail::top_laws<T>;

    [[nodiscard]] static constexpr state identity() { return {}; }

    [[nodiscard]] static constexpr state lift(const located<T>& x) {
        state alone;
        alone.insert(x);
        return alone;
    }
};

}  // namespace allfold
