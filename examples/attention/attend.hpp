// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "examples/attention/attention.hpp"
#include "examples/attention/simd.hpp"

/// @file
/// Attention of one rank over its share of the keys, in one pass, block by block.
///
/// For each block of keys and a few queries at a time: scores = scale · Q Kᵀ, weights = exp(scores - m), s = shrink · s
/// + weights · V, all of which stays in the nearest caches. m is the largest score up to this block, and l and s shrink
/// by exp(old m - m).
///
/// Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao, Fu, Ermon, Rudra and Ré,
/// "FlashAttention", 2022, algorithm 1; Dao, "FlashAttention-2", 2023. Blocks of keys are the outer loop, as in the
/// second of these and unlike the third, so that a block is transposed once for all queries of a head. Departures: s is
/// divided by l once, after the merge; a masked key is left out of the row rather than weighted with 0, which would
/// turn an infinite value into NaN.
///
/// Times on one core of an AMD EPYC (family 26, 2.6 GHz), relative to NumPy 2.4 with OpenBLAS 0.3.31 in the fastest of
/// seven forms; float, medians of interleaved measurements of the thread's own time. Queries x keys x depth, of 8
/// heads:
///
///                        1024 x 8192 x 64   2048 x 2048 x 64   causal   1024 x 4096 x 32   1024 x 4096 x 128
///     g++ 12, AVX-512    0.49               0.49               0.43     0.46               0.51
///     g++ 12, AVX2       0.94               0.92               0.79     0.86               0.97
///     g++ 12, SSE2       2.58               2.49               2.09     2.38               2.59
///
/// clang 19 is within a tenth of that. A single query takes twice as long as with NumPy: transposing costs more than
/// the product.
///
/// Tried and rejected, with times relative to NumPy on the first of these problems: Eigen 3.4 for products and exp
/// takes 0.61x the time, but one more package and nine more seconds of compilation; Debian's OpenBLAS 0.3.21 with our
/// exp takes 0.80x; these loops over arrays in place of vectors take 1.9x with g++ 12 and 11x with clang 19.

namespace attention {
namespace detail {

/// A matrix product is computed in tiles of this many rows and this many vectors of columns, whose sums stay in 12 of
/// the 16 registers that all processors have. The 32 of AVX-512 hold 6 x 4 as well, which is no faster; 12 x 2 takes
/// 1.6x the time, and with AVX2, 4 x 3 and 5 x 2 take 1.05x.
inline constexpr std::size_t tile_rows = 6;
inline constexpr std::size_t tile_vectors = 2;

template <class T>
using tile_of_rows = std::array<T, tile_rows>;

/// A matrix of whole vectors. Its rows are padded to whole tiles with elements that nobody reads.
template <class Vector>
class matrix {
    static constexpr std::size_t tile_columns = tile_vectors * simd::lanes<Vector>;

  public:
    using element = simd::element<Vector>;

    matrix(std::size_t rows, std::size_t columns) : stride_(vectors_for(columns)), vectors_(rows * stride_) {}

    /// The number of vectors, in whole tiles, that hold this many columns.
    [[nodiscard]] static constexpr std::size_t vectors_for(std::size_t columns) noexcept {
        return (columns + tile_columns - 1) / tile_columns * tile_vectors;
    }
    [[nodiscard]] Vector* row(std::size_t i) noexcept { return vectors_.data() + i * stride_; }
    [[nodiscard]] const Vector* row(std::size_t i) const noexcept { return vectors_.data() + i * stride_; }
    [[nodiscard]] element* elements(std::size_t i) noexcept { return reinterpret_cast<element*>(row(i)); }

  private:
    std::size_t stride_;
    std::vector<Vector> vectors_;
};

/// One tile of `multiply`: the columns from vector j on.
template <class Vector>
void multiply_tile(const tile_of_rows<const simd::element<Vector>*>& left, std::size_t count,
                   const matrix<Vector>& right, std::size_t j, matrix<Vector>& out) noexcept {
    Vector sums[tile_rows][tile_vectors] = {};
    for (std::size_t k = 0; k < count; ++k)
        for (std::size_t i = 0; i < tile_rows; ++i)
            for (std::size_t c = 0; c < tile_vectors; ++c) sums[i][c] += left[i][k] * right.row(k)[j + c];
    for (std::size_t i = 0; i < tile_rows; ++i)
        for (std::size_t c = 0; c < tile_vectors; ++c) out.row(i)[j + c] = sums[i][c];
}

/// The product of a tile of rows, with `count` elements each, and the first `count` rows of `right`: its first
/// `vectors` vectors, in whole tiles.
template <class Vector>
void multiply(const tile_of_rows<const simd::element<Vector>*>& left, std::size_t count, const matrix<Vector>& right,
              std::size_t vectors, matrix<Vector>& out) noexcept {
    for (std::size_t j = 0; j < vectors; j += tile_vectors) multiply_tile(left, count, right, j, out);
}

/// Turns the first `seen` scores into weights relative to the largest of them and m, which becomes the new m. Rescales
/// l and s to it, and adds the weights to l. A NaN is not a maximum: its weight is NaN, and so are l and s.
template <class Vector, class T = simd::element<Vector>>
void weigh(std::span<Vector> scores, std::size_t seen, T& m, T& l, std::span<T> s) noexcept {
    constexpr std::size_t lanes = simd::lanes<Vector>;
    for (std::size_t j = seen; j < scores.size() * lanes; ++j)
        scores[j / lanes][j % lanes] = -std::numeric_limits<T>::infinity();
    Vector highest = Vector{} + m;
    for (const Vector& score : scores) highest = score > highest ? score : highest;
    const T new_m = simd::fold(highest, [](T a, T b) { return std::max(a, b); });
    const T shrink = m == new_m ? T(1) : std::exp(m - new_m);
    m = new_m;

    Vector sums{};
    for (Vector& score : scores) {
        score -= finite_base(m);
        simd::exp(score);
        sums += score;
    }
    l = l * shrink + simd::fold(sums, std::plus());
    for (T& element : s) element *= shrink;
}

/// Some neighbouring keys of one head and their values, in the order in which they are multiplied: the keys are
/// transposed.
template <class Vector>
class key_block {
    using T = simd::element<Vector>;

  public:
    /// 64 keys take 1.15x the time; 128 and 512 take the same time within 4 %. If there are few queries, transposing
    /// matters, and 256 keys take 1.6x the time: rows whose length is a power of two compete for the same places in the
    /// cache.
    static constexpr std::size_t capacity = 192;

    explicit key_block(const problem<T>& p)
        : p_(p),
          keys_(p.size.depth, capacity),
          values_(capacity, p.size.value_depth),
          scores_(tile_rows, capacity),
          sums_(tile_rows, p.size.value_depth) {}

    void load(std::size_t head, std::size_t first, std::size_t count) {
        head_ = head;
        first_ = first;
        count_ = count;
        for (std::size_t d = 0; d < p_.size.depth; ++d)
            for (std::size_t j = 0; j < count; ++j) keys_.elements(d)[j] = p_.key(head, first + j)[d];
        for (std::size_t j = 0; j < count; ++j)
            std::copy_n(p_.value(head, first + j), p_.size.value_depth, values_.elements(j));
    }

    /// Adds these keys to the states of a tile of queries, or of as many as are left.
    void attend(std::size_t first_query, partial<T>& state) {
        const auto seen = seen_by(first_query);
        const std::size_t vectors = scores_.vectors_for(*std::max_element(seen.begin(), seen.end()));
        if (vectors == 0) return;

        compute_scores(first_query, vectors);
        const std::size_t first_row = head_ * p_.size.queries + first_query;
        const std::size_t rows = std::min(tile_rows, p_.size.queries - first_query);
        for (std::size_t i = 0; i < rows; ++i) {
            const std::size_t row = first_row + i;
            weigh(std::span(scores_.row(i), vectors), seen[i], state.m[row], state.l[row], state.s_of(row));
        }
        tile_of_rows<const T*> weights;
        for (std::size_t i = 0; i < tile_rows; ++i) weights[i] = scores_.elements(i);
        const std::size_t by_all = *std::min_element(seen.begin(), seen.end());
        multiply(weights, by_all, values_, values_.vectors_for(p_.size.value_depth), sums_);
        for (std::size_t i = 0; i < rows; ++i) add_values(i, by_all, seen[i], state.s_of(first_row + i));
    }

  private:
    /// Query i of a tile. If fewer are left than fill the tile, the last one is repeated.
    [[nodiscard]] std::size_t query(std::size_t first_query, std::size_t i) const noexcept {
        return std::min(first_query + i, p_.size.queries - 1);
    }

    /// How many of these keys each query sees, counted from the first.
    [[nodiscard]] tile_of_rows<std::size_t> seen_by(std::size_t first_query) const noexcept {
        tile_of_rows<std::size_t> seen;
        for (std::size_t i = 0; i < tile_rows; ++i)
            seen[i] = std::min(std::max(p_.visible(query(first_query, i)), first_) - first_, count_);
        return seen;
    }

    void compute_scores(std::size_t first_query, std::size_t vectors) noexcept {
        tile_of_rows<const T*> queries;
        for (std::size_t i = 0; i < tile_rows; ++i) queries[i] = p_.query(head_, query(first_query, i));
        multiply(queries, p_.size.depth, keys_, vectors, scores_);
        for (std::size_t i = 0; i < tile_rows; ++i)
            for (Vector& score : std::span(scores_.row(i), vectors)) score *= static_cast<T>(p_.scale);
    }

    /// Adds values to row i of the tile. The values of the keys that all rows see are summed already; those that only
    /// some rows see follow.
    void add_values(std::size_t i, std::size_t summed, std::size_t seen, std::span<T> s) noexcept {
        for (std::size_t d = 0; d < s.size(); ++d) s[d] += sums_.elements(i)[d];
        for (std::size_t j = summed; j < seen; ++j)
            for (std::size_t d = 0; d < s.size(); ++d) s[d] += scores_.elements(i)[j] * values_.elements(j)[d];
    }

    const problem<T>& p_;
    std::size_t head_ = 0, first_ = 0, count_ = 0;
    matrix<Vector> keys_, values_, scores_, sums_;
};

/// `attend` with vectors of any width.
template <class Vector, class T = simd::element<Vector>, class Tick = decltype([](std::size_t) {})>
[[nodiscard]] partial<T> attend_by(const problem<T>& p, key_range keys, Tick tick = {}) {
    partial<T> state(p.size);
    key_block<Vector> block(p);
    for (std::size_t head = 0; head < p.size.heads; ++head)
        for (std::size_t first = keys.first; first < keys.end; first += block.capacity) {
            const std::size_t count = std::min(block.capacity, keys.end - first);
            block.load(head, first, count);
            for (std::size_t query = 0; query < p.size.queries; query += tile_rows) block.attend(query, state);
            tick(count);
        }
    return state;
}

}  // namespace detail

/// Attention over the given keys alone. Any partition of the keys gives partial results that `allfold::online_softmax`
/// merges into the whole. A row that sees none of the keys is that operator's identity.
///
/// Scores are computed in T. Takes memory for one block of keys and values in addition to the result. Calls `tick(n)`
/// whenever it has finished n keys of a head.
template <std::floating_point T, class Tick = decltype([](std::size_t) {})>
[[nodiscard]] partial<T> attend(const problem<T>& p, key_range keys, Tick tick = {}) {
    return detail::attend_by<simd::vector<T>>(p, keys, tick);
}

}  // namespace attention
