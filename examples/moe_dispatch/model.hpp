// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "examples/common/numbers.hpp"

/// @file
/// A layer with a mixture of experts: a gate sends each token to a few of them, and their outputs are added, each
/// multiplied by the weight that the gate gives it. Shazeer et al., "Outrageously large neural networks", 2017; with
/// one expert for each token: Fedus, Zoph and Shazeer, "Switch transformers", 2022.

namespace examples {

inline constexpr std::size_t width = 32, hidden = 64, most_chosen = 2;
using token = std::array<float, width>;

/// max(0, x · up) · down
struct expert {
    std::array<token, hidden> up, down;
};

/// An expert that the gate has chosen, and its weight.
struct choice {
    std::size_t expert = 0;
    float weight = 0;
};
using choices = std::array<choice, most_chosen>;

struct model {
    std::vector<token> gate;   ///< a row for each expert
    std::vector<float> likes;  ///< added to the scores: some experts are more popular
    std::vector<expert> experts;
};

[[nodiscard]] inline float dot(const token& a, const token& b) {
    float sum = 0;
    for (std::size_t i = 0; i < width; ++i) sum += a[i] * b[i];
    return sum;
}

// Not inlined, so that there is one compiled form of each function, and every caller gets the same bits.

/// The `top` experts with the highest scores, and their shares in the softmax of all scores.
[[nodiscard, gnu::noinline]] inline choices choose(const model& m, const token& x, std::size_t top) {
    choices best;
    std::array<float, most_chosen> scores;
    scores.fill(-INFINITY);
    float highest = -INFINITY, sum = 0;
    for (std::size_t e = 0; e < m.experts.size(); ++e) {
        const float score = dot(m.gate[e], x) + m.likes[e];
        sum = sum * std::exp(highest - std::max(highest, score)) + std::exp(score - std::max(highest, score));
        highest = std::max(highest, score);
        std::size_t at = top;
        for (; at > 0 && score > scores[at - 1]; --at)  // if scores are equal, the first one wins
            if (at < top) {
                scores[at] = scores[at - 1];
                best[at] = best[at - 1];
            }
        if (at == top) continue;
        scores[at] = score;
        best[at].expert = e;
    }
    for (std::size_t k = 0; k < top; ++k) best[k].weight = std::exp(scores[k] - highest) / sum;
    return best;
}

[[nodiscard, gnu::noinline]] inline token output_of(const expert& e, const token& x) {
    token y{};
    for (std::size_t h = 0; h < hidden; ++h) {
        const float active = std::max(0.0F, dot(e.up[h], x));
        for (std::size_t i = 0; i < width; ++i) y[i] += active * e.down[h][i];
    }
    return y;
}

[[gnu::noinline]] inline void add(token& sum, float weight, const token& y) {
    for (std::size_t i = 0; i < width; ++i) sum[i] += weight * y[i];
}

/// Processes one token after another, with all experts at hand: the result that the ranks must find, to the bit.
[[nodiscard]] inline std::vector<token> run_sequentially(const model& m, const std::vector<token>& tokens,
                                                         std::size_t top) {
    std::vector<token> result(tokens.size());
    for (std::size_t t = 0; t < tokens.size(); ++t) {
        const choices chosen = choose(m, tokens[t], top);
        for (std::size_t k = 0; k < top; ++k)
            add(result[t], chosen[k].weight, output_of(m.experts[chosen[k].expert], tokens[t]));
    }
    return result;
}

inline void fill(token& x, float scale, numbers& random) {
    for (float& each : x) each = scale * random.next_float();
}

[[nodiscard]] inline model make_model(std::size_t experts, numbers& random) {
    model m{std::vector<token>(experts), std::vector<float>(experts), std::vector<expert>(experts)};
    for (std::size_t e = 0; e < experts; ++e) {
        fill(m.gate[e], 0.5F, random);
        m.likes[e] = random.next_float();
        for (token& row : m.experts[e].up) fill(row, 0.3F, random);
        for (token& row : m.experts[e].down) fill(row, 0.3F, random);
    }
    return m;
}

[[nodiscard]] inline std::vector<token> make_tokens(std::size_t count, numbers& random) {
    std::vector<token> tokens(count);
    for (token& each : tokens) fill(each, 1, random);
    return tokens;
}

}  // namespace examples
