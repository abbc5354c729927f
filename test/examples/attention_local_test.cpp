// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <limits>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "examples/attention/attend.hpp"
#include "examples/attention/attention.hpp"
#include "examples/attention/npy.hpp"
#include "examples/attention/reference.hpp"
#include "examples/attention/simd.hpp"
#include "test/examples/attention_problems.hpp"
#include "test/support/catch.hpp"

using attention::partial;
using attention::problem;
using attention::sizes;
using test::attend_in_parts;
using test::attend_to_all;
using test::compare;
using test::inf;
using test::merged;
using test::not_a_float;
using test::random_problem;
using test::seed;

TEMPLATE_TEST_CASE("partial results over any split of the keys merge to the reference", "", float, double) {
    INFO("seed " << seed);
    const sizes size{.heads = 3, .queries = 21, .keys = 150, .depth = 16, .value_depth = 9};
    for (const bool causal : {false, true}) {
        const auto p = random_problem<TestType>(size, causal);
        for (const std::vector<std::size_t>& cuts :
             {std::vector<std::size_t>{}, {1}, {64, 128}, {63, 64, 65}, {0, 0, 75, 75, 149, 150}}) {
            INFO("causal " << causal << ", " << cuts.size() << " cuts");
            CHECK(compare(p, merged(attend_in_parts(p, cuts), size.value_depth)).good());
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

TEST_CASE("from the top left a query sees the keys up to its own position") {
    problem<float> p;
    p.causal = p.from_top_left = true;
    p.size.queries = 3;
    p.size.keys = 2;
    CHECK(p.visible(0) == 1);
    CHECK(p.visible(1) == 2);
    CHECK(p.visible(2) == 2);
    p.size.keys = 5;
    CHECK(p.visible(2) == 3);
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
    CHECK(compare(p, result).good());
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
    problem<float> p{.size = {.heads = 1, .queries = 1, .keys = 2, .depth = 1, .value_depth = 1},
                     .scale = 1,
                     .causal = false,
                     .q = {1},
                     .k = {-inf, 0},
                     .v = {5, 7}};
    const auto both_ways = [&p] {
        const auto result = attend_to_all(p);
        CHECK(compare(p, result).deviation == 0);
        CHECK(compare(p, result).good());
        return result[0];
    };
    CHECK(both_ways() == 7);
    p.k = {-inf, -inf};
    CHECK(both_ways() == 0);
    p.k = {-inf, not_a_float};
    CHECK(std::isnan(both_ways()));
}

namespace {

/// The vectors of all architectures, whatever this is compiled for.
#define VECTORS                                                                                                       \
    (attention::simd::vector<float, 16>), (attention::simd::vector<float, 32>), (attention::simd::vector<float, 64>), \
        (attention::simd::vector<double, 16>), (attention::simd::vector<double, 32>),                                 \
        (attention::simd::vector<double, 64>)

template <class T>
constexpr T infinity = std::numeric_limits<T>::infinity();
template <class T>
constexpr T not_a_number = std::numeric_limits<T>::quiet_NaN();

/// Attends to two parts of the keys, merges them by the operator of the library, and normalises.
template <class Vector, class T = attention::simd::element<Vector>>
std::vector<T> attend_in_two(const problem<T>& p, std::size_t cut) {
    auto left = attention::detail::attend_by<Vector>(p, {0, cut});
    const auto right = attention::detail::attend_by<Vector>(p, {cut, p.size.keys});
    std::vector<T> result(p.size.rows() * p.size.value_depth);
    for (std::size_t row = 0; row < left.rows(); ++row) {
        using operand = allfold::row<const T, const T, const T>;
        const std::span<T> m(&left.m[row], 1), l(&left.l[row], 1), s = left.s_of(row);
        allfold::online_softmax{}(operand{m, l, s},
                                  operand{std::span(&right.m[row], 1), std::span(&right.l[row], 1), right.s_of(row)},
                                  allfold::row<T, T, T>{m, l, s});
    }
    attention::normalise<T>(left, 0, left.rows(), result);
    return result;
}

/// NaN and infinities must be where they are expected.
template <class T>
void check_near(const std::vector<T>& found, const std::vector<double>& expected, double bound) {
    REQUIRE(found.size() == expected.size());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
        const double x = found[i], y = expected[i];
        wrong += x != y && !(std::isnan(x) && std::isnan(y)) && !(std::abs(x - y) <= bound);
    }
    CHECK(wrong == 0);
}

}  // namespace

TEMPLATE_TEST_CASE("any shape, mask and scale, cut anywhere, gives the reference", "", VECTORS) {
    using T = attention::simd::element<TestType>;
    constexpr std::size_t block = attention::detail::key_block<TestType>::capacity;
    std::mt19937 random(seed);
    const auto any_of = [&random](std::initializer_list<std::size_t> choices) {
        return choices.begin()[random() % choices.size()];
    };
    for (int i = 0; i < 50; ++i) {
        const sizes size{.heads = any_of({1, 2}),
                         .queries = any_of({1, 2, 5, 6, 7, 12, 17}),
                         .keys = any_of({0, 1, 3, 16, 65, block - 1, block, block + 1, 2 * block, 3 * block + 7}),
                         .depth = any_of({0, 1, 3, 8, 17}),
                         .value_depth = any_of({0, 1, 3, 8, 9, 33, 65})};
        auto p = random_problem<T>(size, any_of({0, 1}) == 1);
        p.scale = static_cast<double>(any_of({0, 1, 2, 3})) / 2 - 0.5;
        const std::size_t cut = random() % (size.keys + 1);
        INFO("seed " << seed << ", case " << i << ": heads " << size.heads << ", queries " << size.queries << ", keys "
                     << size.keys << " cut at " << cut << ", depth " << size.depth << ", value_depth "
                     << size.value_depth << ", causal " << p.causal << ", scale " << p.scale);
        CHECK(compare(p, attend_in_two<TestType>(p, cut)).good());
    }
}

TEMPLATE_TEST_CASE("what is infinite or NaN reaches the rows that see it, and no other", "", VECTORS) {
    using T = attention::simd::element<TestType>;
    constexpr std::size_t block = attention::detail::key_block<TestType>::capacity;
    const sizes size{.heads = 1, .queries = 20, .keys = block + 12, .depth = 1, .value_depth = 2};
    for (const std::size_t key : {std::size_t{0}, std::size_t{60}, block - 7, block - 3, block - 1, block, block + 11})
        for (const T special : {not_a_number<T>, infinity<T>, -infinity<T>})
            for (const bool in_values : {false, true}) {
                INFO("seed " << seed << ": " << special << " in " << (in_values ? "value " : "key ") << key);
                auto p = random_problem<T>(size, true);
                (in_values ? p.v[2 * key] : p.k[key]) = special;
                for (const std::size_t cut : {std::size_t{0}, std::size_t{50}, block + 2})
                    check_near(attend_in_two<TestType>(p, cut), attention::reference(p), 1e-5);
            }
}

TEMPLATE_TEST_CASE("m is the largest score exactly, and scores of ten million do not overflow", "", VECTORS) {
    using T = attention::simd::element<TestType>;
    problem<T> p;
    p.size = {.heads = 1, .queries = 2, .keys = 600, .depth = 1, .value_depth = 1};
    p.q = {1, -1};
    // The first half is far below the second, whose maximum is far from its end.
    for (std::size_t j = 0; j < p.size.keys; ++j) {
        const T sign = j < 300 ? T(-1) : T(1);
        p.k.push_back(sign * T(1e7) + static_cast<T>(j * 77 % 300));
        p.v.push_back(sign);
    }
    const auto state = attention::detail::attend_by<TestType>(p, {0, 600});
    CHECK(state.m == std::vector<T>{T(1e7) + 299, T(1e7)});
    for (const std::size_t row : {0u, 1u}) {
        CHECK(state.l[row] == Catch::Approx(1 / (1 - std::exp(-1.0))));
        CHECK(state.s[row] == Catch::Approx(row == 0 ? state.l[row] : -state.l[row]));
    }
}

TEMPLATE_TEST_CASE("the exp of vectors is within 2 units in the last place, down to 0", "", VECTORS) {
    using T = attention::simd::element<TestType>;
    using wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;
    const auto exp_of = [](T x) {
        TestType lanes = TestType{} + x;
        attention::simd::exp(lanes);
        return lanes[0];
    };
    CHECK(exp_of(0) == 1);
    CHECK(exp_of(-infinity<T>) == 0);
    CHECK(exp_of(std::numeric_limits<T>::lowest()) == 0);
    CHECK(exp_of(T(-1e7)) == 0);
    CHECK(std::isnan(exp_of(not_a_number<T>)));
    CHECK(std::isnan(exp_of(-not_a_number<T>)));

    const T end = std::is_same_v<T, float> ? T(-105) : T(-750);
    wide largest_error = 0;
    for (int i = 0; i <= 20000; ++i) {
        const T x = end * static_cast<T>(i) / 20000;
        const wide exact = std::exp(wide{x});
        const wide unit = std::max<wide>(std::exp2(std::floor(std::log2(exact)) + 1 - std::numeric_limits<T>::digits),
                                         std::numeric_limits<T>::denorm_min());
        largest_error = std::max(largest_error, std::abs(wide{exp_of(x)} - exact) / unit);
    }
    CHECK(largest_error < 2);
}
