// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include <allfold/algebra/online_softmax.hpp>

/// @file
/// Attention over some of the keys: softmax(scale · Q Kᵀ) V, left unfinished so that it can be merged.

namespace attention {

/// `heads` is the number of batches times the number of heads. Queries and keys have `depth` elements, values and
/// results `value_depth`.
struct sizes {
    std::size_t heads = 1;
    std::size_t queries = 0;
    std::size_t keys = 0;
    std::size_t depth = 0;
    std::size_t value_depth = 0;

    /// One row of the result for each head and query.
    [[nodiscard]] constexpr std::size_t rows() const noexcept { return heads * queries; }
};

/// Queries, keys and values, each [head][position][element].
template <std::floating_point T>
struct problem {
    sizes size;
    double scale = 1;
    bool causal = false;
    bool from_top_left = false;  ///< where the causal mask begins
    std::vector<T> q, k, v;

    [[nodiscard]] const T* query(std::size_t head, std::size_t i) const noexcept {
        return q.data() + (head * size.queries + i) * size.depth;
    }
    [[nodiscard]] const T* key(std::size_t head, std::size_t j) const noexcept {
        return k.data() + (head * size.keys + j) * size.depth;
    }
    [[nodiscard]] const T* value(std::size_t head, std::size_t j) const noexcept {
        return v.data() + (head * size.keys + j) * size.value_depth;
    }
    /// How many keys query i sees, counted from the first. The causal mask is aligned to the end unless
    /// `from_top_left`: the last query sees the last key, and query i the keys j <= i + keys - queries, none if that is
    /// negative (PyTorch's `causal_lower_right`). From the top left, query i sees the keys j <= i
    /// (`causal_upper_left`).
    [[nodiscard]] std::size_t visible(std::size_t i) const noexcept {
        if (!causal) return size.keys;
        if (from_top_left) return std::min(i + 1, size.keys);
        return i + 1 + size.keys > size.queries ? i + 1 + size.keys - size.queries : 0;
    }
};

/// The keys first ... end - 1.
struct key_range {
    std::size_t first = 0;
    std::size_t end = 0;
};

/// Attention over some of the keys, for each row: the largest score m, the sum l of exp(score - m), and the sum s of
/// the values with the same weights. Before the first key, it is the identity of `allfold::online_softmax`.
template <std::floating_point T>
struct partial {
    std::size_t depth;  ///< elements of s in a row
    std::vector<T> m, l, s;

    explicit partial(const sizes& size)
        : depth(size.value_depth),
          m(size.rows(), -std::numeric_limits<T>::infinity()),
          l(size.rows()),
          s(size.rows() * depth) {}

    [[nodiscard]] std::size_t rows() const noexcept { return m.size(); }
    [[nodiscard]] std::span<T> s_of(std::size_t row) noexcept { return std::span(s).subspan(row * depth, depth); }
    [[nodiscard]] std::span<const T> s_of(std::size_t row) const noexcept {
        return std::span(s).subspan(row * depth, depth);
    }
};

namespace detail {

/// The value relative to which scores are taken: their maximum, unless all are -inf, because -inf - -inf must not be
/// computed.
template <std::floating_point T>
[[nodiscard]] constexpr T finite_base(T highest) noexcept {
    return highest == -std::numeric_limits<T>::infinity() ? T(0) : highest;
}

}  // namespace detail

/// Rescales each row to another maximum, which must not be smaller than its own.
template <std::floating_point T>
void rescale(partial<T>& state, std::span<const T> maxima) noexcept {
    for (std::size_t row = 0; row < state.rows(); ++row) {
        const T shrink = std::exp(state.m[row] - detail::finite_base(maxima[row]));
        state.m[row] = maxima[row];
        state.l[row] *= shrink;
        for (T& element : state.s_of(row)) element *= shrink;
    }
}

/// The last division, s / l, of rows first ... end - 1 into the same rows of `result`. A row that saw no key is 0.
template <std::floating_point T>
void normalise(const partial<T>& state, std::size_t first, std::size_t end, std::span<T> result) noexcept {
    for (std::size_t row = first; row < end; ++row)
        allfold::online_softmax::normalize(state.l[row], state.s_of(row),
                                           result.subspan(row * state.depth, state.depth));
}

}  // namespace attention
