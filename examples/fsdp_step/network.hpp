// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "examples/common/numbers.hpp"
#include "examples/fsdp_step/digits.hpp"

/// @file
/// A perceptron with two layers, whose four parameter tensors follow each other in one vector. What one digit adds to
/// the gradient depends only on the parameters and that digit.

namespace examples {

inline constexpr std::size_t hidden = 32;

/// Where the tensors are in the vector of parameters.
struct layout {
    static constexpr std::size_t up = 0, up_bias = up + hidden * pixels, down = up_bias + hidden,
                                 down_bias = down + classes * hidden, total = down_bias + classes;
    static constexpr std::array tensors{up, up_bias, down, down_bias, total};  // where each begins, and the last ends
};

struct activations {
    std::array<float, hidden> inner;
    std::array<float, classes> probability;

    [[nodiscard]] std::size_t guess() const {
        return static_cast<std::size_t>(std::ranges::max_element(probability) - probability.begin());
    }
    [[nodiscard]] double loss(const digit& d) const {
        return -std::log(std::max(static_cast<double>(probability[d.shown]), 1e-30));
    }
};

[[nodiscard]] inline activations run_forward(std::span<const float> p, const digit& d) {
    activations a;
    for (std::size_t h = 0; h < hidden; ++h) {
        float sum = p[layout::up_bias + h];
        for (std::size_t i = 0; i < pixels; ++i) sum += p[layout::up + h * pixels + i] * d.shade[i];
        a.inner[h] = std::max(0.0F, sum);
    }
    for (std::size_t c = 0; c < classes; ++c) {
        float sum = p[layout::down_bias + c];
        for (std::size_t h = 0; h < hidden; ++h) sum += p[layout::down + c * hidden + h] * a.inner[h];
        a.probability[c] = sum;
    }
    const float highest = *std::ranges::max_element(a.probability);
    float sum = 0;
    for (float& each : a.probability) sum += each = std::exp(each - highest);
    for (float& each : a.probability) each /= sum;
    return a;
}

/// Adds the contribution of one digit, element by element: `sums` are numbers, or objects to which numbers can be
/// added.
template <class Sum>
void add_gradient(std::span<const float> p, const digit& d, std::vector<Sum>& sums) {
    const activations a = run_forward(p, d);
    std::array<float, hidden> back{};
    for (std::size_t c = 0; c < classes; ++c) {
        const float error = a.probability[c] - (c == d.shown ? 1.0F : 0.0F);
        sums[layout::down_bias + c] += error;
        for (std::size_t h = 0; h < hidden; ++h) {
            sums[layout::down + c * hidden + h] += error * a.inner[h];
            back[h] += error * p[layout::down + c * hidden + h];
        }
    }
    for (std::size_t h = 0; h < hidden; ++h) {
        if (a.inner[h] <= 0) continue;
        sums[layout::up_bias + h] += back[h];
        for (std::size_t i = 0; i < pixels; ++i) sums[layout::up + h * pixels + i] += back[h] * d.shade[i];
    }
}

[[nodiscard]] inline std::vector<float> first_parameters(std::uint64_t seed) {
    numbers random(seed);
    std::vector<float> p(layout::total);
    for (std::size_t i = layout::up; i < layout::up_bias; ++i) p[i] = 0.25F * random.next_float();
    for (std::size_t i = layout::down; i < layout::down_bias; ++i) p[i] = 0.3F * random.next_float();
    return p;
}

/// The numbers below `count` in a pseudorandom order.
[[nodiscard]] inline std::vector<std::size_t> shuffled(std::size_t count, std::uint64_t seed) {
    numbers random(seed);
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.next() % i]);
    return order;
}

}  // namespace examples
