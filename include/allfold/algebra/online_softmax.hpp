// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <limits>
#include <span>
#include <tuple>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/elementwise.hpp"
#include "allfold/algebra/laws.hpp"
#include "allfold/algebra/row.hpp"

/// @file
/// The merge of partial attention results.
///
///     part of the keys, with logits x_i and values v_i:
///                     m = max x_i       l = Σ exp(x_i - m)                   s = Σ exp(x_i - m) · v_i
///     two parts:      m = max(m1, m2)   l = l1·exp(m1 - m) + l2·exp(m2 - m)  s = s1·exp(m1 - m) + s2·exp(m2 - m)
///     all parts:      softmax(x)·v = s / l
///
/// Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao, Fu, Ermon, Rudra and Ré,
/// "FlashAttention", 2022. Departure: the factor of the part with the greater m is exactly 1, so only one exp is
/// computed, and the scaled part is added to the other, which stays unscaled.

namespace allfold {

/// The state of attention after some of the keys: their greatest logit m, and the denominator l and the numerator s,
/// both relative to exp(m). Without keys it is the identity of the merge.
template <std::floating_point T, std::size_t D>
struct softmax_state {
    T m = -std::numeric_limits<T>::infinity();
    T l = 0;
    std::array<T, D> s{};

    friend constexpr bool operator==(const softmax_state&, const softmax_state&) = default;
};

namespace detail {

template <class T>
inline constexpr bool is_softmax_state = false;
template <class T, std::size_t D>
inline constexpr bool is_softmax_state<softmax_state<T, D>> = true;

/// exp(-|m1 - m2|), the factor for the part with the lower maximum. For equal maxima it is 1, even if both are -inf and
/// their difference would be NaN.
template <std::floating_point T>
[[nodiscard]] T lower_factor(T m1, T m2) {
    return m1 == m2 ? T{1} : std::exp(-std::abs(m1 - m2));
}

/// out = higher + factor · lower. `out` may be either operand.
template <std::floating_point T>
void add_scaled(std::span<const T> higher, T factor, std::span<const T> lower, std::span<T> out) noexcept {
    elementwise<touches::nothing>(higher.data(), lower.data(), out.data(), out.size(),
                                  [factor](T x, T y) { return x + factor * y; });
}

template <class T, std::size_t D>
[[nodiscard]] row<const T, const T, const T> as_row(const softmax_state<T, D>& state) noexcept {
    return {std::span(&state.m, 1), std::span(&state.l, 1), std::span(state.s)};
}
template <class T, std::size_t D>
[[nodiscard]] row<T, T, T> as_row(softmax_state<T, D>& state) noexcept {
    return {std::span(&state.m, 1), std::span(&state.l, 1), std::span(state.s)};
}

}  // namespace detail

/// Merges partial attention results: `softmax_state` values, or rows (m, l, s[D]) of three of the caller's tensors,
/// with one m and one l per row.
///
/// Commutative to the last bit, associative up to rounding; m is exact. No exponent is above 0, so logits of any size
/// neither overflow nor cancel: a part vanishes if its maximum is so far below the other's that its factor underflows
/// (by 104 for float, 746 for double). A part without keys, or with masked keys only (logit -inf), is the identity
/// (-inf, 0, 0), and merging two of those gives the identity again, not NaN. A NaN logit makes the whole row NaN.
///
/// A merge costs one exp and D + 1 multiply-adds.
struct online_softmax {
    template <std::floating_point M, std::floating_point L, std::floating_point S>
    void operator()(row<const M, const L, const S> left, row<const M, const L, const S> right, row<M, L, S> out) const {
        const M left_m = std::get<0>(left)[0], right_m = std::get<0>(right)[0];
        // A branch, so that s is fetched while m is still in transit from another core.
        if (left_m < right_m)
            merge(right, left, out);
        else
            merge(left, right, out);
        std::get<0>(out)[0] = max{}(left_m, right_m);
    }

    template <std::floating_point T, std::size_t D>
    [[nodiscard]] softmax_state<T, D> operator()(const softmax_state<T, D>& left,
                                                 const softmax_state<T, D>& right) const {
        softmax_state<T, D> out;
        (*this)(detail::as_row(left), detail::as_row(right), detail::as_row(out));
        return out;
    }

    static constexpr law_set laws = law::associative | law::commutative;

    template <class State>
        requires detail::is_softmax_state<State>
    [[nodiscard]] static constexpr State identity() {
        return {};
    }

    /// Sets a row to the identity: no keys yet.
    template <std::floating_point M, std::floating_point L, std::floating_point S>
    static void set_identity(row<M, L, S> out) {
        std::get<0>(out)[0] = -std::numeric_limits<M>::infinity();
        std::get<1>(out)[0] = 0;
        for (S& s : std::get<2>(out)) s = 0;
    }

    /// The state of one key. A masked key, with logit -inf, counts as no key.
    template <std::floating_point T, std::size_t D>
    [[nodiscard]] static constexpr softmax_state<T, D> lift(T logit, const std::array<T, D>& value) {
        if (logit == -std::numeric_limits<T>::infinity()) return {};
        if (logit != logit) return of_nan<T, D>(logit);
        return {logit, T{1}, value};
    }

    /// s / l, the attention over all keys merged so far, or zeros if there were none. Collectives do not apply it: they
    /// leave states, which can be merged further. `normalised_softmax` does.
    template <std::floating_point L, std::floating_point S>
    static void normalize(L l, std::span<const S> s, std::span<S> out) noexcept {
        const S divisor = l == 0 ? S{1} : static_cast<S>(l);  // no keys: s is zero already
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = s[i] / divisor;
    }
    template <std::floating_point T, std::size_t D>
    [[nodiscard]] static std::array<T, D> normalize(const softmax_state<T, D>& state) noexcept {
        std::array<T, D> out;
        normalize(state.l, std::span<const T>(state.s), std::span<T>(out));
        return out;
    }

  private:
    /// The state of a NaN logit: nothing of its value is left, as after a merge.
    template <std::floating_point T, std::size_t D>
    [[nodiscard]] static constexpr softmax_state<T, D> of_nan(T nan) {
        softmax_state<T, D> state{nan, nan};
        state.s.fill(nan);
        return state;
    }
    template <std::floating_point M, std::floating_point L, std::floating_point S>
    static void merge(const row<const M, const L, const S>& higher, const row<const M, const L, const S>& lower,
                      const row<M, L, S>& out) {
        const M factor = detail::lower_factor(std::get<0>(higher)[0], std::get<0>(lower)[0]);
        std::get<1>(out)[0] = std::get<1>(higher)[0] + static_cast<L>(factor) * std::get<1>(lower)[0];
        detail::add_scaled(std::get<2>(higher), static_cast<S>(factor), std::get<2>(lower), std::get<2>(out));
    }
};

/// `online_softmax` with the final division inside the collective: the result is (m, l, s / l), the attention over all
/// keys, with zeros if there were none. Has the same bits as `online_softmax` followed by `normalize`, with each row
/// divided once: in a long `all_reduce` between ranks that share memory, each rank divides its own part. The result is
/// no longer a state and cannot be merged further; m and l are kept, so that m + log(l) still tells its weight.
struct normalised_softmax : online_softmax {
    template <std::floating_point M, std::floating_point L, std::floating_point S>
    static void lower(row<const M, const L, const S> state, int /*contributions*/, row<M, L, S> out) noexcept {
        std::get<0>(out)[0] = std::get<0>(state)[0];
        std::get<1>(out)[0] = std::get<1>(state)[0];
        normalize(std::get<1>(state)[0], std::get<2>(state), std::get<2>(out));
    }
    template <class State>
        requires detail::is_softmax_state<State>
    [[nodiscard]] static State lower(const State& state, int /*contributions*/) noexcept {
        return {state.m, state.l, normalize(state)};
    }
};

}  // namespace allfold
