// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "examples/attention/attend.hpp"
#include "examples/attention/attention.hpp"
#include "examples/attention/npy.hpp"
#include "examples/attention/reference.hpp"

/// @file
/// Attention problems drawn from a seed, computed on one rank or in parts, for the tests of the attention program.

namespace test {

inline constexpr unsigned seed = 4711;

template <class T>
attention::problem<T> random_problem(attention::sizes size, bool causal, double spread = 1) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal(0, spread);
    const auto draw = [&](std::size_t count) {
        std::vector<T> values(count);
        for (T& value : values) value = static_cast<T>(normal(random));
        return values;
    };
    return {.size = size,
            .scale = 1 / std::sqrt(static_cast<double>(size.depth)),
            .causal = causal,
            .q = draw(size.rows() * size.depth),
            .k = draw(size.heads * size.keys * size.depth),
            .v = draw(size.heads * size.keys * size.value_depth)};
}

/// The merge of partial results by its definition, in double and without special cases: for finite m only.
template <class T>
std::vector<double> merged(const std::vector<attention::partial<T>>& parts, std::size_t value_depth) {
    const std::size_t rows = parts.front().m.size();
    std::vector<double> result(rows * value_depth);
    for (std::size_t row = 0; row < rows; ++row) {
        double highest = -std::numeric_limits<double>::infinity(), l = 0;
        for (const auto& part : parts) highest = std::max(highest, double{part.m[row]});
        if (std::isinf(highest)) continue;
        for (const auto& part : parts) {
            const double weight = std::exp(double{part.m[row]} - highest);
            l += weight * double{part.l[row]};
            for (std::size_t d = 0; d < value_depth; ++d)
                result[row * value_depth + d] += weight * double{part.s[row * value_depth + d]};
        }
        for (std::size_t d = 0; d < value_depth; ++d) result[row * value_depth + d] /= l;
    }
    return result;
}

/// Cuts the keys after each of the given positions.
template <class T>
std::vector<attention::partial<T>> attend_in_parts(const attention::problem<T>& p, std::vector<std::size_t> cuts) {
    cuts.push_back(p.size.keys);
    std::vector<attention::partial<T>> parts;
    std::size_t first = 0;
    for (const std::size_t cut : cuts) parts.push_back(attention::attend(p, {std::exchange(first, cut), cut}));
    return parts;
}

template <class T>
std::vector<T> attend_to_all(const attention::problem<T>& p) {
    std::vector<T> result(p.size.rows() * p.size.value_depth);
    attention::normalise<T>(attention::attend(p, {0, p.size.keys}), 0, p.size.rows(), result);
    return result;
}

template <class T, class Result>
attention::finding compare(const attention::problem<T>& p, const std::vector<Result>& result,
                           npy::dtype type = npy::dtype::float64) {
    return attention::compare_with_reference(p, std::span(result), type);
}

inline constexpr float inf = std::numeric_limits<float>::infinity(),
                       not_a_float = std::numeric_limits<float>::quiet_NaN();

}  // namespace test
