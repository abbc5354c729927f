// SPDX-License-Identifier: BSL-1.0
#include "allfold/algebra/online_softmax.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <span>
#include <tuple>
#include <vector>

#include "allfold/algebra/check_laws.hpp"
#include "allfold/algebra/operator.hpp"
#include "test/support/catch.hpp"

using allfold::law;
using allfold::online_softmax;
using allfold::row;
using allfold::softmax_state;

namespace {

constexpr std::size_t D = 5;
constexpr double masked = -std::numeric_limits<double>::infinity();
using state = softmax_state<double, D>;
using values = std::array<double, D>;

struct key {
    double logit;
    values value;
};

std::vector<key> random_keys(std::size_t count, double logit_size, double share_masked, unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> logit(-logit_size, logit_size), value(-1, 1), share(0, 1);
    std::vector<key> keys(count);
    for (key& k : keys) {
        k.logit = share(random) < share_masked ? masked : logit(random);
        std::generate(k.value.begin(), k.value.end(), [&] { return value(random); });
    }
    return keys;
}

/// The definition: softmax over all keys at once.
values attention(std::span<const key> keys) {
    double greatest = masked, denominator = 0;
    values sum{};
    for (const key& k : keys) greatest = std::max(greatest, k.logit);
    for (const key& k : keys) {
        if (k.logit == masked) continue;
        const double weight = std::exp(k.logit - greatest);
        denominator += weight;
        for (std::size_t i = 0; i < D; ++i) sum[i] += weight * k.value[i];
    }
    for (double& s : sum) s = denominator == 0 ? 0 : s / denominator;
    return sum;
}

/// Folds the keys in order, bracketed at random.
state fold_at_random(std::span<const key> keys, std::mt19937& random) {
    if (keys.empty()) return online_softmax::identity<state>();
    if (keys.size() == 1) return online_softmax::lift(keys[0].logit, keys[0].value);
    const std::size_t cut = std::uniform_int_distribution<std::size_t>(0, keys.size() - 1)(random);
    if (cut == 0)
        return online_softmax{}(
            state{}, online_softmax{}(fold_at_random(keys.first(1), random), fold_at_random(keys.subspan(1), random)));
    return online_softmax{}(fold_at_random(keys.first(cut), random), fold_at_random(keys.subspan(cut), random));
}

/// One row of three tensors.
template <class T>
struct stored_row {
    T m, l;
    std::vector<T> s;

    explicit stored_row(const softmax_state<T, D>& from) : m(from.m), l(from.l), s(from.s.begin(), from.s.end()) {}
    [[nodiscard]] row<const T, const T, const T> read() const {
        return {std::span(&m, 1), std::span(&l, 1), std::span(s)};
    }
    [[nodiscard]] row<T, T, T> write() { return {std::span(&m, 1), std::span(&l, 1), std::span(s)}; }
    [[nodiscard]] softmax_state<T, D> value() const {
        softmax_state<T, D> out{m, l, {}};
        std::copy(s.begin(), s.end(), out.s.begin());
        return out;
    }
};

/// States for all the hard cases: equal maxima, signed zeros, logits far apart, no keys.
template <class T>
std::vector<softmax_state<T, D>> hard_states() {
    using limits = std::numeric_limits<T>;
    std::vector<softmax_state<T, D>> states{{}};
    for (const T logit : {T(-1e4), T(-3), T(-0.0), T(0), T(0.5), T(0.5), T(1e4), limits::max(), limits::lowest()})
        states.push_back(
            online_softmax::lift(logit, std::array<T, D>{T(0.1), T(-0.7), T(3), logit > 0 ? T(1) : T(2), 0}));
    states.push_back(online_softmax{}(states[2], states[5]));
    return states;
}

/// States count as the same if m is equal, and l and s differ only by rounding: normalize() and later merges then give
/// nearly the same too.
constexpr auto nearly_same = [](const state& a, const state& b) {
    const allfold::within close(1e-12);
    return a.m == b.m && close(a.l, b.l) && close(a.s, b.s);
};

}  // namespace

TEST_CASE("online softmax is an operator on states and on rows, associative, commutative and not exact") {
    constexpr auto laws = law::associative | law::commutative;
    STATIC_REQUIRE(allfold::laws_of<online_softmax, softmax_state<float, 64>> == laws);
    STATIC_REQUIRE(allfold::laws_of<online_softmax, row<float, float, float>> == laws);
    STATIC_REQUIRE(allfold::commutative_operator<online_softmax, softmax_state<float, 64>>);
    STATIC_REQUIRE(allfold::commutative_operator<online_softmax, row<double, double, double>>);
    STATIC_REQUIRE(allfold::operator_with_identity<online_softmax, state>);
    STATIC_REQUIRE(allfold::detail::folds_rows<online_softmax, row<float, float, float>>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<online_softmax, row<float, float>>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<online_softmax, row<int, int, int>>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<online_softmax, float>);
    STATIC_REQUIRE_FALSE(allfold::lowering_operator<online_softmax, state>);
}

TEST_CASE("online softmax keeps its laws on parts with equal, distant, huge and masked logits") {
    CHECK(allfold::check_laws(online_softmax{}, hard_states<double>(), nearly_same).text() ==
          "all declared laws hold on 11 samples");
}

TEST_CASE("online softmax is commutative to the last bit") {
    const auto states = hard_states<float>();
    for (const auto& a : states)
        for (const auto& b : states) {
            const auto left = online_softmax{}(a, b), right = online_softmax{}(b, a);
            CHECK(left == right);
            CHECK(std::signbit(left.m) == std::signbit(right.m));
        }
}

TEST_CASE("online softmax gives the attention over all keys, however they are bracketed") {
    const auto [logit_size, share_masked] =
        GENERATE(table<double, double>({{1, 0}, {30, 0}, {1e4, 0}, {1, 0.5}, {1e4, 0.9}, {1, 1}}));
    for (unsigned seed = 0; seed < 20; ++seed)
        for (const std::size_t count : {0U, 1U, 2U, 3U, 17U, 100U}) {
            INFO("seed " << seed << ", " << count << " keys, logits up to " << logit_size << ", masked "
                         << share_masked);
            const auto keys = random_keys(count, logit_size, share_masked, seed);
            std::mt19937 random(seed);
            const values folded = online_softmax::normalize(fold_at_random(keys, random));
            CHECK(allfold::within(1e-12)(folded, attention(keys)));
        }
}

TEST_CASE("a part without keys is the identity of online softmax, to the last bit") {
    const state none = online_softmax::identity<state>();
    CHECK(none == state{masked, 0, {}});
    CHECK(online_softmax{}(none, none) == none);
    for (const state& part : hard_states<double>()) {
        CHECK(online_softmax{}(none, part) == part);
        CHECK(online_softmax{}(part, none) == part);
    }
}

TEST_CASE("masked keys count as none, and a row with no others has zeros for its attention") {
    const state none = online_softmax::lift(masked, values{1, 2, 3, 4, 5});
    CHECK(none == state{});
    CHECK(online_softmax::normalize(online_softmax{}(none, none)) == values{});
}

TEST_CASE("merging parts with logits of ten thousand neither overflows nor cancels") {
    const values low{1, 1, 1, 1, 1}, high{2, 0, -2, 4, 8};
    for (const float offset : {-1e4F, 0.0F, 1e4F}) {
        const auto lift = [](float logit, const values& value) {
            std::array<float, D> narrow{};
            std::transform(value.begin(), value.end(), narrow.begin(), [](double v) { return static_cast<float>(v); });
            return online_softmax::lift(logit, narrow);
        };
        const auto near = online_softmax::normalize(online_softmax{}(lift(offset, low), lift(offset, high)));
        CHECK(near == std::array<float, D>{1.5F, 0.5F, -0.5F, 2.5F, 4.5F});
        const auto far = online_softmax::normalize(online_softmax{}(lift(offset - 200, low), lift(offset, high)));
        CHECK(far == std::array<float, D>{2, 0, -2, 4, 8});
    }
}

TEST_CASE("a logit that is NaN makes the whole row NaN, from either side") {
    const state good = online_softmax::lift(1.0, values{1, 2, 3, 4, 5});
    const state bad = online_softmax::lift(std::numeric_limits<double>::quiet_NaN(), values{1, 2, 3, 4, 5});
    for (const state& merged :
         {bad, online_softmax{}(good, bad), online_softmax{}(bad, good), online_softmax{}(bad, bad)}) {
        CHECK(std::isnan(merged.m));
        for (const double value : online_softmax::normalize(merged)) CHECK(std::isnan(value));
    }
}

TEMPLATE_TEST_CASE("online softmax folds rows as it folds states, into a third row or in place", "", float, double) {
    const auto states = hard_states<TestType>();
    for (const auto& a : states)
        for (const auto& b : states) {
            const auto expected = online_softmax{}(a, b);
            stored_row<TestType> left(a), right(b), out({});
            online_softmax{}(left.read(), right.read(), out.write());
            CHECK(out.value() == expected);
            CHECK(left.value() == a);
            CHECK(right.value() == b);

            online_softmax{}(left.read(), right.read(), left.write());
            CHECK(left.value() == expected);
            left = stored_row<TestType>(a);
            online_softmax{}(left.read(), right.read(), right.write());
            CHECK(right.value() == expected);
        }
}

TEST_CASE("a row that is folded with itself in place doubles") {
    stored_row<double> both(online_softmax::lift(2.0, values{1, 2, 3, 4, 5}));
    online_softmax{}(both.read(), both.read(), both.write());
    CHECK(both.value() == state{2, 2, {2, 4, 6, 8, 10}});
}

TEST_CASE("the tensors of a row may have different floating point types and any length") {
    for (const std::size_t length : {0U, 1U, 15U, 64U, 1000U}) {
        const double m1 = 1, m2 = 3;
        const float l1 = 2, l2 = 4;
        const std::vector<float> s1(length, 1), s2(length, 8);
        double m = 0;
        float l = 0;
        std::vector<float> s(length);
        using read = row<const double, const float, const float>;
        online_softmax{}(read(std::span(&m1, 1), std::span(&l1, 1), s1), read(std::span(&m2, 1), std::span(&l2, 1), s2),
                         row<double, float, float>(std::span(&m, 1), std::span(&l, 1), s));
        CHECK(m == 3);
        CHECK(l == Catch::Approx(4 + 2 * std::exp(-2.0)));
        for (const float value : s) CHECK(value == Catch::Approx(8 + std::exp(-2.0)));
    }
}

TEST_CASE("a row can be set to the identity and normalized in place") {
    stored_row<float> part(online_softmax::lift(1.0F, std::array<float, D>{2, 4, 6, 8, 10}));
    part.l = 2;
    online_softmax::normalize(part.l, std::span<const float>(part.s), std::span(part.s));
    CHECK(part.s == std::vector<float>{1, 2, 3, 4, 5});
    online_softmax::set_identity(part.write());
    CHECK(part.value() == softmax_state<float, D>{});
}
