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

template <class T>
std::vector<T> attend_to_all(const problem<T>& p) {
    std::vector<T> result(p.size.rows() * p.size.value_depth);
    attention::normalise<T>(attention::attend(p, {0, p.size.keys}), 0, p.size.rows(), result);
    return result;
}

template <class T, class Result>
attention::finding compare(const problem<T>& p, const std::vector<Result>& result,
                           npy::dtype type = npy::dtype::float64) {
    return attention::compare_with_reference(p, std::span(result), type);
}

constexpr float inf = std::numeric_limits<float>::infinity(), not_a_float = std::numeric_limits<float>::quiet_NaN();

}  // namespace

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

TEST_CASE("what is not finite where it should be is infinitely far off, and only that") {
    const auto share = [](double result, double expected) {
        attention::finding all;
        all.look_at(0, result, expected, 4);
        return all.share;
    };
    CHECK(share(3, 5) == 0.5);
    CHECK(share(not_a_float, not_a_float) == 0);
    CHECK(share(inf, inf) == 0);
    CHECK(share(not_a_float, inf) == 0);  // 0 times infinity, where the weight is smaller than any float
    CHECK(share(not_a_float, 1) == inf);
    CHECK(share(1, not_a_float) == inf);
    CHECK(share(inf, -inf) == inf);
    CHECK(share(inf, 1) == inf);
}

TEST_CASE("of two findings the worse element counts, and the larger deviation") {
    attention::finding a, b;
    a.look_at(7, 1, 2, 1);
    b.look_at(3, 10, 15, 100);
    for (const auto& both : {a | b, b | a}) {
        CHECK(both.element == 7);
        CHECK(both.deviation == 5);
    }
}

TEMPLATE_TEST_CASE("rounding never exceeds what the check allows", "", float, double) {
    INFO("seed " << seed);
    using T = TestType;
    const auto passes = [](const problem<T>& p) {
        const auto result = attend_to_all(p);
        for (const auto type : {npy::dtype::float16, npy::dtype::float32, npy::dtype::float64})
            if (npy::size_of(type) <= sizeof(T)) CHECK(compare(p, result, type).share <= 1);
    };
    const sizes size{.heads = 2, .queries = 40, .keys = 97, .depth = 32, .value_depth = 33};
    for (const bool causal : {false, true}) {
        auto p = random_problem<T>(size, causal);
        passes(p);
        p.from_top_left = true;
        passes(p);
        for (const double scale : {-1., 0., 1e-30, 10., 1e4, 1e7}) {
            INFO("scale " << scale);
            p.scale = scale;
            passes(p);
        }
    }
    passes(random_problem<T>({.heads = 3, .queries = 9, .keys = 1, .depth = 1, .value_depth = 1}, false, 100));

    // Large scores that differ by little: their own rounding decides.
    auto close = random_problem<T>(size, false, 0.01);
    for (auto input : {&problem<T>::q, &problem<T>::k})
        for (T& x : close.*input) x += 100;
    passes(close);

    // Equal weights and values: all roundings go the same way, and grow with the number of keys.
    problem<T> p{.size = {.heads = 1, .queries = 1, .keys = 20000, .depth = 1, .value_depth = 1},
                 .scale = 1,
                 .causal = false,
                 .q = {0},
                 .k = std::vector<T>(20000),
                 .v = std::vector<T>(20000, T(0.1))};
    passes(p);
    p.v.assign(20000, std::numeric_limits<T>::denorm_min() * 3);
    passes(p);
    // Growing scores: the sums are taken relative to another maximum again and again.
    p.q = {1};
    p.v.assign(20000, T(0.1));
    for (std::size_t j = 0; j < 20000; ++j) p.k[j] = static_cast<T>(j) * T(1e-4);
    passes(p);
}

TEST_CASE("the check notices that one of 97 keys is missing, in any row") {
    INFO("seed " << seed);
    const auto p = random_problem<float>({.heads = 1, .queries = 8, .keys = 97, .depth = 32, .value_depth = 8}, false);
    auto right = attend_to_all(p);
    const auto wrong = merged(std::vector{attention::attend(p, {0, 96})}, 8);
    CHECK(compare(p, right).good());
    for (std::size_t row = 0; row < 8; ++row) {
        auto one_row = right;
        for (std::size_t d = 0; d < 8; ++d) one_row[row * 8 + d] = static_cast<float>(wrong[row * 8 + d]);
        const auto found = compare(p, one_row);
        CHECK(found.share > 2);
        CHECK(found.element / 8 == row);
    }
}

TEST_CASE("one NaN or one infinity in a result is found") {
    const auto p = random_problem<float>({.heads = 2, .queries = 8, .keys = 97, .depth = 8, .value_depth = 8}, true);
    const auto right = attend_to_all(p);
    for (const float bad : {not_a_float, inf}) {
        auto result = right;
        result[77] = bad;
        const auto found = compare(p, result);
        CHECK(found.share == inf);
        CHECK(found.element == 77);
    }
}

TEST_CASE("a wrong row is found among rows of much larger values") {
    auto p = random_problem<float>({.heads = 2, .queries = 8, .keys = 97, .depth = 8, .value_depth = 8}, false);
    const std::size_t values = 97 * 8, results = 8 * 8;
    for (std::size_t i = 0; i < values; ++i) p.v[i] *= 1e6f;  // those of the first head
    auto result = attend_to_all(p);
    CHECK(compare(p, result).good());
    result[results + 20] += 0.01f;
    const auto found = compare(p, result);
    CHECK(!found.good());
    CHECK(found.element == results + 20);

    // Also where all rows see all values, and the others take the large one.
    problem<float> q{.size = {.heads = 1, .queries = 2, .keys = 2, .depth = 1, .value_depth = 1},
                     .scale = 1,
                     .causal = false,
                     .q = {60, -60},
                     .k = {1, -1},
                     .v = {1e9f, 1}};
    CHECK(compare(q, attend_to_all(q)).good());
    CHECK(compare(q, std::vector{1e9f, 1.01f}).element == 1);
    CHECK(!compare(q, std::vector{1e9f, 1.01f}).good());
}

TEST_CASE("infinite input lets nothing else pass") {
    const sizes size{.heads = 2, .queries = 8, .keys = 97, .depth = 8, .value_depth = 8};
    for (auto input : {&problem<float>::q, &problem<float>::k, &problem<float>::v})
        for (const float bad : {inf, -inf, not_a_float}) {
            auto p = random_problem<float>(size, true);
            (p.*input)[3] = bad;
            auto result = attend_to_all(p);
            CHECK(compare(p, result).good());
            const std::size_t finite = 127;  // the last element, of the other head
            REQUIRE(std::isfinite(result[finite]));
            for (const float wrong : {result[finite] + 0.01f, not_a_float, inf}) {
                result[finite] = wrong;
                CHECK(compare(p, result).element == finite);
                CHECK(!compare(p, result).good());
            }
        }

    // In the row itself: another element than that of the infinite value.
    auto p = random_problem<float>(size, false);
    p.v[0] = inf;
    auto result = attend_to_all(p);
    CHECK(compare(p, result).good());
    result[1] += 0.01f;
    CHECK(!compare(p, result).good());
}

TEST_CASE("scores too large for float do not make the reference infinite") {
    auto p = random_problem<float>({.heads = 1, .queries = 4, .keys = 9, .depth = 3, .value_depth = 2}, false);
    p.scale = 1e308;
    const auto expected = attention::reference(p);
    CHECK(std::all_of(expected.begin(), expected.end(), [](double x) { return std::isfinite(x); }));
    CHECK(compare(p, attend_to_all(p)).share == inf);
}

TEST_CASE("ranks that share the reference find what one finds") {
    auto p = random_problem<float>({.heads = 3, .queries = 70, .keys = 50, .depth = 4, .value_depth = 5}, true);
    auto result = attend_to_all(p);
    result[500] += 1;
    const auto alone = compare(p, result);
    attention::finding together;
    std::size_t rows = 0;
    for (int rank = 0; rank < 4; ++rank)
        together =
            together | attention::compare_with_reference(p, std::span(std::as_const(result)), npy::dtype::float64, rank,
                                                         4, [&](std::size_t done) { rows += done; });
    CHECK(rows == p.size.rows());
    CHECK(together.element == 500);
    CHECK(together.deviation == alone.deviation);
}

TEST_CASE("a result that was computed elsewhere is held to the same") {
    const auto p = random_problem<float>({.heads = 2, .queries = 8, .keys = 97, .depth = 8, .value_depth = 8}, true);
    auto result = attend_to_all(p);
    const auto known = attention::reference(p);
    const auto compared = [&] {
        return attention::compare_with_known(p, std::span(std::as_const(result)), npy::dtype::float32, known, 1);
    };
    CHECK(compared().good());
    result[99] += 0.01f;
    CHECK(compared().element == 99);
    CHECK(!compared().good());
}

namespace {

/// The vectors of all processors, whatever this is compiled for.
#define VECTORS                                                                                                       \
    (attention::simd::vector<float, 16>), (attention::simd::vector<float, 32>), (attention::simd::vector<float, 64>), \
        (attention::simd::vector<double, 16>), (attention::simd::vector<double, 32>),                                 \
        (attention::simd::vector<double, 64>)

template <class T>
constexpr T infinity = std::numeric_limits<T>::infinity();
template <class T>
constexpr T not_a_number = std::numeric_limits<T>::quiet_NaN();

/// Two parts of the keys, merged by the operator of the library and normalised.
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

/// NaN and infinities are to be where they are expected.
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
    for (std::size_t j = 0; j < p.size.keys; ++j) {  // the first half far below the second, which is far from its end
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
