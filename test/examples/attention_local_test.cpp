// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "examples/attention/attention.hpp"
#include "test/support/catch.hpp"

using attention::partial;
using attention::problem;
using attention::sizes;

namespace {

constexpr unsigned seed = 4711;

template <class T>
problem<T> random_problem(sizes size, bool causal, double spread = 1) {
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

/// The merge of partial results from its definition, in double and without any care: for finite m only.
template <class T>
std::vector<double> merged(const std::vector<partial<T>>& parts, std::size_t value_depth) {
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
std::vector<partial<T>> attend_in_parts(const problem<T>& p, std::vector<std::size_t> cuts) {
    cuts.push_back(p.size.keys);
    std::vector<partial<T>> parts;
    std::size_t first = 0;
    for (const std::size_t cut : cuts) parts.push_back(attention::attend(p, {std::exchange(first, cut), cut}));
    return parts;
}

}  // namespace

TEMPLATE_TEST_CASE("partial results over any split of the keys merge to the reference", "", float, double) {
    INFO("seed " << seed);
    const sizes size{.heads = 3, .queries = 21, .keys = 150, .depth = 16, .value_depth = 9};
    for (const bool causal : {false, true}) {
        const auto p = random_problem<TestType>(size, causal);
        const auto expected = attention::reference(p);
        for (const std::vector<std::size_t>& cuts :
             {std::vector<std::size_t>{}, {1}, {64, 128}, {63, 64, 65}, {0, 0, 75, 75, 149, 150}}) {
            INFO("causal " << causal << ", " << cuts.size() << " cuts");
            const auto result = merged(attend_in_parts(p, cuts), size.value_depth);
            CHECK(attention::largest_deviation(result, expected) < attention::tolerance(p));
        }
    }
}

TEST_CASE("the reference is softmax, for two keys by hand") {
    const problem<double> p{.size = {.heads = 1, .queries = 1, .keys = 2, .depth = 2, .value_depth = 1},
                            .scale = 0.5,
                            .causal = false,
                            .q = {1, 2},
                            .k = {3, 1, 1, 1},
                            .v = {10, 20}};
    const double a = std::exp(2.5), b = std::exp(1.5);
    CHECK(attention::reference(p)[0] == Catch::Approx((10 * a + 20 * b) / (a + b)));
}

TEST_CASE("the causal mask lets the last query see the last key") {
    problem<float> p;
    p.causal = true;
    p.size.queries = 3;
    p.size.keys = 5;
    CHECK(p.visible(0) == 3);
    CHECK(p.visible(2) == 5);
    p.size.keys = 2;
    CHECK(p.visible(0) == 0);
    CHECK(p.visible(1) == 1);
    CHECK(p.visible(2) == 2);
    p.size.keys = 0;
    CHECK(p.visible(2) == 0);
}

TEST_CASE("a rank without keys has the identity") {
    const auto p = random_problem<float>({.heads = 2, .queries = 3, .keys = 4, .depth = 5, .value_depth = 2}, false);
    const auto nothing = attention::attend(p, {4, 4});
    CHECK(nothing.m == std::vector<float>(6, -std::numeric_limits<float>::infinity()));
    CHECK(nothing.l == std::vector<float>(6, 0));
    CHECK(nothing.s == std::vector<float>(12, 0));
}

TEST_CASE("rows that see no key give 0 and never NaN") {
    const auto p = random_problem<float>({.heads = 2, .queries = 7, .keys = 4, .depth = 5, .value_depth = 2}, true);
    const auto state = attention::attend(p, {0, 4});
    std::vector<float> result(p.size.rows() * p.size.value_depth, 99);
    attention::normalise<float>(state, 0, p.size.rows(), result);
    for (const std::size_t head : {0u, 1u}) {
        const auto rows = std::span(result).subspan(head * 14, 14);
        CHECK(std::all_of(rows.begin(), rows.begin() + 6, [](float x) { return x == 0; }));  // queries 0, 1 and 2
        CHECK(std::none_of(rows.begin() + 6, rows.end(), [](float x) { return x == 0 || std::isnan(x); }));
    }
    const std::vector<double> wide(result.begin(), result.end());
    CHECK(attention::largest_deviation(wide, attention::reference(p)) < attention::tolerance(p));
}

TEST_CASE("logits of ten thousand neither overflow nor lose the keys that count") {
    const problem<float> p{.size = {.heads = 1, .queries = 2, .keys = 3, .depth = 1, .value_depth = 1},
                           .scale = 1,
                           .causal = false,
                           .q = {1, -1},
                           .k = {10000, -10000, 9999},
                           .v = {1, 2, 4}};
    const auto result = merged(attend_in_parts(p, {1, 2}), 1);
    CHECK(result[0] == Catch::Approx((1 + 4 * std::exp(-1.0)) / (1 + std::exp(-1.0))));
    CHECK(result[1] == 2);
}

TEST_CASE("a key whose score is -inf counts as masked, a NaN is not hidden") {
    constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    problem<float> p{.size = {.heads = 1, .queries = 1, .keys = 2, .depth = 1, .value_depth = 1},
                     .scale = 1,
                     .causal = false,
                     .q = {1},
                     .k = {-infinity, 0},
                     .v = {5, 7}};
    const auto both_ways = [&p] {
        std::vector<float> result(1);
        attention::normalise<float>(attention::attend(p, {0, 2}), 0, 1, result);
        const std::vector<double> wide(result.begin(), result.end());
        CHECK(attention::largest_deviation(wide, attention::reference(p)) == 0);
        return result[0];
    };
    CHECK(both_ways() == 7);
    p.k = {-infinity, -infinity};
    CHECK(both_ways() == 0);
    p.k = {-infinity, nan};
    CHECK(std::isnan(both_ways()));
}

TEST_CASE("the deviation from a NaN that the reference does not have is infinite") {
    constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
    const auto deviation = [](double a, double b) {
        return attention::largest_deviation(std::vector{a, 1.0}, std::vector{b, 1.0});
    };
    CHECK(deviation(3, 5) == 2);
    CHECK(deviation(nan, nan) == 0);
    CHECK(deviation(infinity, infinity) == 0);
    CHECK(deviation(nan, 1) == infinity);
    CHECK(deviation(1, nan) == infinity);
    CHECK(deviation(infinity, -infinity) == infinity);
}

TEST_CASE("the tolerance is small enough to notice that one key is missing") {
    INFO("seed " << seed);
    auto p = random_problem<float>({.heads = 1, .queries = 8, .keys = 500, .depth = 32, .value_depth = 8}, false);
    const auto expected = attention::reference(p);
    const auto result = merged(std::vector{attention::attend(p, {0, 499})}, 8);
    CHECK(attention::largest_deviation(result, expected) > attention::tolerance(p));
}
