// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "examples/attention/attention.hpp"
#include "examples/attention/npy.hpp"

/// @file
/// The check of a result: attention computed in double directly from its definition, and a bound on how far rounding
/// may move each row from it. Several ranks may each take a share of the rows.

namespace attention {
namespace detail {

/// How many columns of a matrix product are summed side by side.
inline constexpr std::size_t panel_width = 32;

/// sums[j] += Σ left[k] right[k][j] for one panel, whose rows lie `stride` apart.
#ifdef __GNUC__
[[gnu::always_inline]]
#endif
inline void multiply_plainly(std::span<const double> left, const double* right, std::size_t stride, double* sums) {
    double partial[panel_width];
    std::copy_n(sums, panel_width, partial);
    for (const double factor : left) {
        for (std::size_t j = 0; j < panel_width; ++j) partial[j] += factor * right[j];
        right += stride;
    }
    std::copy_n(partial, panel_width, sums);
}

#if defined(__GNUC__) && defined(__x86_64__)  // the same in wider registers, if the processor has them
__attribute__((target("avx2,fma"))) inline void multiply_widely(std::span<const double> left, const double* right,
                                                                std::size_t stride, double* sums) {
    multiply_plainly(left, right, stride, sums);
}
inline const bool is_wide = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
#else
inline constexpr auto multiply_widely = multiply_plainly;
inline constexpr bool is_wide = false;
#endif

inline void multiply(std::span<const double> left, const double* right, std::size_t stride, double* sums) {
    is_wide ? multiply_widely(left, right, stride, sums) : multiply_plainly(left, right, stride, sums);
}

[[nodiscard]] constexpr std::size_t in_panels(std::size_t n) {
    return (n + panel_width - 1) / panel_width * panel_width;
}

/// The Euclidean length of a vector; 0 if it is not entirely finite, because the scores are then not a matter of
/// rounding.
template <std::floating_point T>
[[nodiscard]] double finite_length(std::span<const T> vector) {
    double squares = 0;
    for (const T x : vector) {
        if (!std::isfinite(x)) return 0;
        squares += double{x} * double{x};
    }
    return std::sqrt(squares);
}

/// The largest finite element: if the reference is finite, so are all values of which it is the mean.
template <std::floating_point T>
[[nodiscard]] double finite_size(std::span<const T> vector) {
    double largest = 0;
    for (const T x : vector)
        if (std::isfinite(x)) largest = std::max(largest, std::abs(double{x}));
    return largest;
}

/// Replaces scores with softmax(scale · scores), in two passes. A score of -inf is a masked key; if all scores are
/// -inf, all weights are 0. The scale is applied last, so that only differences from the largest score can overflow, to
/// a weight of 0.
inline void softmax(std::span<double> scores, double scale) {
    if (scale < 0)
        for (double& score : scores) score = -score;
    const double base = finite_base(*std::max_element(scores.begin(), scores.end()));
    double sum = 0;
    for (double& score : scores) sum += score = std::exp(std::abs(scale) * (score - base));
    if (sum == 0) return;
    for (double& score : scores) score /= sum;
}

}  // namespace detail

/// What the rounding error of a row depends on.
struct seen_by_row {
    std::size_t keys = 0;
    double query = 0;          ///< its length
    double result = 0;         ///< its largest element
    double longest_key = 0;    ///< the length of the longest key
    double largest_value = 0;  ///< the largest element of any value
    double mean_value = 0;     ///< the largest element of each value, averaged by the weights

    void see(double key_length, double value_size) noexcept {
        longest_key = std::max(longest_key, key_length);
        largest_value = std::max(largest_value, value_size);
    }
};

/// How far rounding may move a correct result in T, computed on this many ranks, not counting the rounding of its
/// elements when they are stored. u is half the distance from 1 to the next T, plus the same for double: the reference
/// is rounded as well.
///
/// Scores. A dot product of D elements, its scale, the difference from the maximum and the exp of that are off by at
/// most u (D + 8) |scale| |q| |k|, in any order of addition. Scores that are off by e change each weight by a factor
/// between exp(-2e) and exp(2e), because of the denominator, and so a mean of values v by (exp(2e) - 1) Σ w |v - mean|;
/// never by more than the spread of the values.
///
/// Sums. Numerator and denominator are sums over n keys: n additions, each off by at most u times what it adds up; four
/// roundings for each rescaling to another maximum, which happens at most once per 16 keys and once per rank; and eight
/// for what happens once: the exp, products, the division.
///
/// Underflow. Weights below the smallest normal number may be 0.
template <std::floating_point T>
class allowance {
  public:
    allowance(const problem<T>& p, int ranks) : p_(p), ranks_(static_cast<double>(ranks)) {}

    [[nodiscard]] double of(const seen_by_row& r) const {
        using limits = std::numeric_limits<T>;
        constexpr double u = (double{limits::epsilon()} + std::numeric_limits<double>::epsilon()) / 2;
        const auto depth = static_cast<double>(p_.size.depth), n = static_cast<double>(r.keys);
        const double product = r.query * r.longest_key, scale = std::abs(p_.scale);
        const double score =
            u * (depth + 8) * scale * product + double{limits::denorm_min()} * (depth * scale + product);
        const double weights = std::expm1(2 * score);
        const double roundings = n + n / 4 + 4 * std::min(n, ranks_) + 8;
        const double apart = r.largest_value + r.result, expected = r.mean_value + r.result;
        return (weights < 1 ? weights * expected : apart) + u * roundings * expected +
               n * (double{limits::min()} * r.largest_value + double{limits::denorm_min()});
    }

  private:
    const problem<T>& p_;
    double ranks_;
};

/// The reference for a few neighbouring queries of one head at a time.
template <std::floating_point T>
class reference_tile {
  public:
    reference_tile(const problem<T>& p, int ranks)
        : p_(p),
          allowance_(p, ranks),
          queries_(std::clamp<std::size_t>(all_weights / static_cast<std::size_t>(ranks) / (p.size.keys + 1), 4, 32)),
          stride_(detail::in_panels(p.size.keys)),
          depth_(detail::in_panels(p.size.value_depth)),
          query_(p.size.depth),
          block_(detail::panel_width * std::max(p.size.depth, depth_)),
          weights_(queries_ * stride_),
          results_(queries_ * depth_) {}

    /// The maximum number of queries in a tile.
    [[nodiscard]] std::size_t queries() const { return queries_; }

    void compute(std::size_t head, std::size_t first, std::size_t end) {
        if (key_lengths_.empty() || head != head_) measure(head);
        head_ = head, first_ = first, end_ = end;
        std::fill(weights_.begin(), weights_.end(), 0);
        std::fill(results_.begin(), results_.end(), 0);
        const std::size_t keys = p_.visible(end - 1);
        for (std::size_t j = 0; j < keys; j += detail::panel_width) score(j, std::min(detail::panel_width, keys - j));
        for (std::size_t i = first; i < end; ++i)
            if (p_.visible(i) != 0) detail::softmax(weights(i), p_.scale);
        for (std::size_t j = 0; j < keys; j += detail::panel_width) average(j, std::min(detail::panel_width, keys - j));
    }

    /// The row of the result for query i.
    [[nodiscard]] std::span<const double> expected(std::size_t i) const {
        return std::span(results_).subspan((i - first_) * depth_, p_.size.value_depth);
    }
    [[nodiscard]] double allowed(std::size_t i) const {
        const std::span<const double> w = std::span(weights_).subspan((i - first_) * stride_, p_.visible(i));
        if (w.empty()) return 0;
        seen_by_row seen{.keys = w.size(),
                         .query = detail::finite_length(std::span(p_.query(head_, i), p_.size.depth)),
                         .result = detail::finite_size(expected(i))};
        for (std::size_t j = 0; j < w.size(); ++j) {
            seen.see(key_lengths_[j], value_sizes_[j]);
            seen.mean_value += w[j] * value_sizes_[j];
        }
        return allowance_.of(seen);
    }

  private:
    [[nodiscard]] std::span<double> weights(std::size_t i) {
        return std::span(weights_).subspan((i - first_) * stride_, p_.visible(i));
    }

    /// Measures how large the keys and values of a head are.
    void measure(std::size_t head) {
        key_lengths_.clear();
        value_sizes_.clear();
        for (std::size_t j = 0; j < p_.size.keys; ++j) {
            key_lengths_.push_back(detail::finite_length(std::span(p_.key(head, j), p_.size.depth)));
            value_sizes_.push_back(detail::finite_size(std::span(p_.value(head, j), p_.size.value_depth)));
        }
    }

    /// Computes the products of all queries with some keys.
    void score(std::size_t first_key, std::size_t count) {
        for (std::size_t j = 0; j < count; ++j) {
            const std::span key(p_.key(head_, first_key + j), p_.size.depth);
            for (std::size_t d = 0; d < key.size(); ++d) block_[d * detail::panel_width + j] = double{key[d]};
        }
        for (std::size_t i = first_; i < end_; ++i) {
            std::copy_n(p_.query(head_, i), p_.size.depth, query_.begin());
            detail::multiply(query_, block_.data(), detail::panel_width, &weights_[(i - first_) * stride_ + first_key]);
        }
    }

    /// Adds some values, multiplied by their weights, to all results.
    void average(std::size_t first_key, std::size_t count) {
        for (std::size_t j = 0; j < count; ++j) {
            const std::span value(p_.value(head_, first_key + j), p_.size.value_depth);
            std::copy(value.begin(), value.end(), block_.begin() + static_cast<std::ptrdiff_t>(j * depth_));
        }
        for (std::size_t i = first_; i < end_; ++i) {
            const std::size_t seen = std::clamp(p_.visible(i), first_key, first_key + count) - first_key;
            if (seen == 0) continue;
            const std::span<const double> w(&weights_[(i - first_) * stride_ + first_key], seen);
            for (std::size_t d = 0; d < depth_; d += detail::panel_width)
                detail::multiply(w, &block_[d], depth_, &results_[(i - first_) * depth_ + d]);
        }
    }

    static constexpr std::size_t all_weights = 1 << 22;  ///< of all ranks together, if that leaves enough queries

    const problem<T>& p_;
    allowance<T> allowance_;
    std::size_t queries_, stride_, depth_;  ///< rounded up to whole panels, except the first
    std::size_t head_ = 0, first_ = 0, end_ = 0;
    std::vector<double> query_, block_, weights_, results_, key_lengths_, value_sizes_;
};

/// Rank r of P computes every Pth tile of the reference, starting with tile r: with a causal mask, later rows take
/// longer. Calls `use(row, expected, allowed)` for each of its rows, and `tick(rows)` after each tile.
template <std::floating_point T, class Use, class Tick>
void for_each_reference_row(const problem<T>& p, int rank, int ranks, Use use, Tick tick) {
    reference_tile<T> tile(p, ranks);
    const std::size_t tiles = (p.size.queries + tile.queries() - 1) / tile.queries();
    for (auto t = static_cast<std::size_t>(rank); t < p.size.heads * tiles; t += static_cast<std::size_t>(ranks)) {
        const std::size_t head = t / tiles, first = t % tiles * tile.queries();
        const std::size_t end = std::min(first + tile.queries(), p.size.queries);
        tile.compute(head, first, end);
        for (std::size_t i = first; i < end; ++i) use(head * p.size.queries + i, tile.expected(i), tile.allowed(i));
        tick(end - first);
    }
}

/// The reference for all rows.
template <std::floating_point T>
[[nodiscard]] std::vector<double> reference(const problem<T>& p) {
    std::vector<double> result(p.size.rows() * p.size.value_depth);
    const auto keep = [&](std::size_t row, std::span<const double> expected, double) {
        std::copy(expected.begin(), expected.end(),
                  result.begin() + static_cast<std::ptrdiff_t>(row * p.size.value_depth));
    };
    for_each_reference_row(p, 0, 1, keep, [](std::size_t) {});
    return result;
}

/// The result of a comparison: how far off elements are at most, and which one is farthest off relative to what it is
/// allowed.
struct finding {
    double deviation = 0;
    double share = 0;  ///< of what the worst element is allowed: up to 1 is correct
    std::size_t element = 0;
    double found = 0, expected = 0, allowed = 0;  ///< of the worst element

    [[nodiscard]] bool good() const noexcept { return share <= 1; }

    /// Takes another element into account. Two infinities of the same sign, or two NaNs, are equal. If an infinity is
    /// expected, NaN is correct too: its weight may be 0 in another type. Any other value that is not finite is
    /// infinitely far off.
    void look_at(std::size_t at, double result, double reference, double allows) noexcept {
        constexpr double infinity = std::numeric_limits<double>::infinity();
        if (result == reference || (std::isnan(result) && !std::isfinite(reference))) return;
        const bool finite = std::isfinite(result) && std::isfinite(reference);
        const double distance = finite ? std::abs(result - reference) : infinity;
        deviation = std::max(deviation, distance);
        const double used = finite ? distance / allows : infinity;
        if (used > share) share = used, element = at, found = result, expected = reference, allowed = allows;
    }

    /// Combines both: the first one's worst element, unless the other's is worse, or equally bad with a smaller index.
    [[nodiscard]] friend finding operator|(const finding& a, const finding& b) noexcept {
        const bool first = a.share != b.share ? a.share > b.share : a.element <= b.element;
        finding both = first ? a : b;
        both.deviation = std::max(a.deviation, b.deviation);
        return both;
    }
};

namespace detail {

/// Compares a row of the result after it has been stored as `type`.
template <std::floating_point T>
void compare_row(finding& all, std::size_t row, std::span<const T> result, npy::dtype type,
                 std::span<const double> expected, double allowed) {
    for (std::size_t d = 0; d < expected.size(); ++d) {
        const std::size_t at = row * expected.size() + d;
        all.look_at(at, npy::rounded_to(type, result[at]), expected[d],
                    allowed + npy::storage_error(type, std::abs(expected[d]) + allowed));
    }
}

}  // namespace detail

/// What rank r of P finds in its share of the rows of a result after that has been stored as `type`.
template <std::floating_point T, std::floating_point Result, class Tick = decltype([](std::size_t) {})>
[[nodiscard]] finding compare_with_reference(const problem<T>& p, std::span<const Result> result, npy::dtype type,
                                             int rank = 0, int ranks = 1, Tick tick = {}) {
    finding all;
    const auto compare = [&](std::size_t row, std::span<const double> expected, double allowed) {
        detail::compare_row(all, row, result, type, expected, allowed);
    };
    for_each_reference_row(p, rank, ranks, compare, tick);
    return all;
}

/// The same comparison with a result in double that was computed elsewhere. Its weights are not known, so any weights
/// are allowed for.
template <std::floating_point T>
[[nodiscard]] finding compare_with_known(const problem<T>& p, std::span<const T> result, npy::dtype type,
                                         std::span<const double> known, int ranks) {
    finding all;
    const allowance<T> allowance(p, ranks);
    for (std::size_t head = 0; head < p.size.heads; ++head) {
        std::vector<double> key_lengths, value_sizes;
        for (std::size_t j = 0; j < p.size.keys; ++j) {
            key_lengths.push_back(detail::finite_length(std::span(p.key(head, j), p.size.depth)));
            value_sizes.push_back(detail::finite_size(std::span(p.value(head, j), p.size.value_depth)));
        }
        for (std::size_t i = 0; i < p.size.queries; ++i) {
            const std::size_t row = head * p.size.queries + i;
            const auto expected = known.subspan(row * p.size.value_depth, p.size.value_depth);
            seen_by_row seen{.keys = p.visible(i),
                             .query = detail::finite_length(std::span(p.query(head, i), p.size.depth)),
                             .result = detail::finite_size(expected)};
            for (std::size_t j = 0; j < seen.keys; ++j) seen.see(key_lengths[j], value_sizes[j]);
            seen.mean_value = seen.largest_value;
            detail::compare_row(all, row, result, type, expected, allowance.of(seen));
        }
    }
    return all;
}

}  // namespace attention
