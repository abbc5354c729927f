// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "examples/attention/attention.hpp"
#include "examples/attention/npy.hpp"
#include "examples/attention/reference.hpp"
#include "test/examples/attention_problems.hpp"
#include "test/support/catch.hpp"

using attention::problem;
using attention::sizes;
using test::attend_to_all;
using test::compare;
using test::inf;
using test::merged;
using test::not_a_float;
using test::random_problem;
using test::seed;
TEST_CASE("what is not finite where it should be is infinitely far off, and only that") {
    const auto share = [](double result, double expected) {
        attention::finding all;
        all.look_at(0, result, expected, 4);
        return all.share;
    };
    CHECK(share(3, 5) == 0.5);
    CHECK(share(not_a_float, not_a_float) == 0);
    CHECK(share(inf, inf) == 0);
    CHECK(share(not_a_float, inf) == 0);  // 0 times infinity, if the weight is smaller than any float
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

    // Large scores that differ little: their own rounding dominates.
    auto close = random_problem<T>(size, false, 0.01);
    for (auto input : {&problem<T>::q, &problem<T>::k})
        for (T& x : close.*input) x += 100;
    passes(close);

    // Equal weights and values: all rounding errors have the same sign, and grow with the number of keys.
    problem<T> p{.size = {.heads = 1, .queries = 1, .keys = 20000, .depth = 1, .value_depth = 1},
                 .scale = 1,
                 .causal = false,
                 .q = {0},
                 .k = std::vector<T>(20000),
                 .v = std::vector<T>(20000, T(0.1))};
    passes(p);
    p.v.assign(20000, std::numeric_limits<T>::denorm_min() * 3);
    passes(p);
    // Growing scores: the sums are rescaled to a new maximum again and again.
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

    // Also if all rows see all values, and the other row takes the large one.
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
            const std::size_t finite = 127;  // the last element, in the other head
            REQUIRE(std::isfinite(result[finite]));
            for (const float wrong : {result[finite] + 0.01f, not_a_float, inf}) {
                result[finite] = wrong;
                CHECK(compare(p, result).element == finite);
                CHECK(!compare(p, result).good());
            }
        }

    // In the row itself: an element other than the one with the infinite value.
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
