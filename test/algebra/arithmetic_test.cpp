// SPDX-License-Identifier: BSL-1.0
#include "allfold/algebra/arithmetic.hpp"

#include <cmath>
#include <compare>
#include <complex>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "allfold/algebra/check_laws.hpp"
#include "allfold/algebra/operator.hpp"
#include "test/support/catch.hpp"

using allfold::check_laws;
using allfold::law;
using allfold::law_set;
using allfold::max;
using allfold::min;
using allfold::product;
using allfold::sum;

namespace {

constexpr law_set ring = law::associative | law::commutative;
constexpr law_set lattice = law::associative | law::commutative | law::idempotent | law::exact;

/// An equality that tells -0 from +0. All NaNs of the same sign are equal.
struct same_float {
    template <std::floating_point T>
    bool operator()(T a, T b) const {
        return std::signbit(a) == std::signbit(b) && (a == b || (std::isnan(a) && std::isnan(b)));
    }
};

template <class T>
std::vector<T> edge_integers() {
    using limits = std::numeric_limits<T>;
    return {limits::min(), static_cast<T>(limits::min() + 1), static_cast<T>(-1), 0, 1, 3, limits::max() / 2,
            limits::max()};
}

template <class T>
std::vector<T> edge_floats() {
    using limits = std::numeric_limits<T>;
    return {-limits::infinity(), limits::lowest(),   T(-1), -limits::denorm_min(), T(-0.0), T(0), T(0.1), T(1),
            limits::infinity(),  limits::quiet_NaN()};
}

/// Whether min and max of the two, in either order, are the one canonical NaN.
template <class T>
bool all_give_nan(T a, T b) {
    const auto is_the_nan = [](T x) { return same_float{}(x, std::numeric_limits<T>::quiet_NaN()); };
    return is_the_nan(min{}(a, b)) && is_the_nan(min{}(b, a)) && is_the_nan(max{}(a, b)) && is_the_nan(max{}(b, a));
}

/// A letter that compares without regard to case, so equivalent letters can still be told apart.
struct letter {
    char value;
    friend constexpr std::weak_ordering operator<=>(letter a, letter b) { return (a.value | 32) <=> (b.value | 32); }
    friend constexpr bool operator==(letter a, letter b) { return (a <=> b) == 0; }
};

struct same_letter {
    constexpr bool operator()(letter a, letter b) const { return a.value == b.value; }
};

/// A type with + and * about which nothing else is known.
struct unknown {
    int value;
    friend constexpr unknown operator+(unknown a, unknown b) { return {a.value * 2 + b.value}; }
    friend constexpr unknown operator*(unknown a, unknown b) { return {a.value - b.value}; }
};

struct only_less {
    int value;
    friend constexpr bool operator<(only_less a, only_less b) { return a.value < b.value; }
};

}  // namespace

TEMPLATE_TEST_CASE("sum, product, min and max keep their laws on the edges of integers", "", char, signed char,
                   unsigned char, short, unsigned short, int, unsigned, long, unsigned long, long long,
                   unsigned long long, char16_t) {
    const std::vector<TestType> samples = edge_integers<TestType>();
    CHECK(check_laws(sum{}, samples).text() == "all declared laws hold on 8 samples");
    CHECK(check_laws(product{}, samples).text() == "all declared laws hold on 8 samples");
    CHECK(check_laws(min{}, samples).text() == "all declared laws hold on 8 samples");
    CHECK(check_laws(max{}, samples).text() == "all declared laws hold on 8 samples");
    STATIC_REQUIRE(allfold::laws_of<sum, TestType> == (ring | law::exact));
    STATIC_REQUIRE(allfold::laws_of<product, TestType> == (ring | law::exact));
    STATIC_REQUIRE(allfold::laws_of<min, TestType> == lattice);
    STATIC_REQUIRE(allfold::laws_of<max, TestType> == lattice);
    STATIC_REQUIRE(allfold::operator_with_identity<sum, TestType>);
    STATIC_REQUIRE(allfold::operator_with_identity<product, TestType>);
    STATIC_REQUIRE(allfold::operator_with_identity<min, TestType>);
    STATIC_REQUIRE(allfold::operator_with_identity<max, TestType>);
}

TEST_CASE("sums and products of integers wrap around where they overflow, without undefined behaviour") {
    // All of these are constant expressions, in which undefined behaviour would not compile.
    STATIC_REQUIRE(sum{}(std::int32_t{INT32_MAX}, std::int32_t{1}) == INT32_MIN);
    STATIC_REQUIRE(sum{}(std::int64_t{INT64_MIN}, std::int64_t{-1}) == INT64_MAX);
    STATIC_REQUIRE(sum{}(std::int8_t{127}, std::int8_t{1}) == -128);
    STATIC_REQUIRE(sum{}(std::uint8_t{255}, std::uint8_t{1}) == 0);
    STATIC_REQUIRE(product{}(std::uint16_t{65535}, std::uint16_t{65535}) == 1);
    STATIC_REQUIRE(product{}(std::int16_t{-32768}, std::int16_t{-32768}) == 0);
    STATIC_REQUIRE(product{}(std::int32_t{INT32_MIN}, std::int32_t{-1}) == INT32_MIN);
    STATIC_REQUIRE(product{}(std::int64_t{INT64_MAX}, std::int64_t{2}) == -2);
}

TEST_CASE("a bool is not added, though it is compared") {
    STATIC_REQUIRE_FALSE(allfold::binary_operation<sum, bool>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<product, bool>);
    CHECK(check_laws(min{}, {false, true}));
    CHECK(check_laws(max{}, {false, true}));
}

TEMPLATE_TEST_CASE("sum and product of floats are associative and commutative up to rounding", "", float, double,
                   long double) {
    STATIC_REQUIRE(allfold::laws_of<sum, TestType> == ring);
    STATIC_REQUIRE(allfold::laws_of<product, TestType> == ring);
    const std::vector<TestType> samples{TestType(0.1), TestType(-7.25), 0, TestType(3e5), 1, TestType(1e-3)};
    CHECK(check_laws(sum{}, samples, allfold::within(1e-6)));
    CHECK(check_laws(product{}, samples, allfold::within(1e-6)));
}

TEMPLATE_TEST_CASE("sum and product of complex numbers are associative and commutative up to rounding", "", float,
                   double) {
    using complex = std::complex<TestType>;
    STATIC_REQUIRE(allfold::laws_of<sum, complex> == ring);
    STATIC_REQUIRE(allfold::laws_of<product, complex> == ring);
    const std::vector<complex> samples{{0, 1}, {TestType(0.3), -2}, {}, {1, 0}, {5, TestType(0.7)}};
    CHECK(check_laws(sum{}, samples, allfold::within(1e-6)));
    CHECK(check_laws(product{}, samples, allfold::within(1e-6)));
    CHECK(allfold::identity_of<complex>(sum{}) == complex(0, 0));
    CHECK(allfold::identity_of<complex>(product{}) == complex(1, 0));
    STATIC_REQUIRE_FALSE(allfold::binary_operation<min, complex>);
}

TEMPLATE_TEST_CASE("min and max of floats keep their laws to the last bit, with zeros, infinities and NaN", "", float,
                   double, long double) {
    STATIC_REQUIRE(allfold::laws_of<min, TestType> == lattice);
    STATIC_REQUIRE(allfold::laws_of<max, TestType> == lattice);
    const std::vector<TestType> samples = edge_floats<TestType>();
    CHECK(check_laws(min{}, samples, same_float{}).text() == "all declared laws hold on 10 samples");
    CHECK(check_laws(max{}, samples, same_float{}).text() == "all declared laws hold on 10 samples");
}

TEMPLATE_TEST_CASE("min and max of floats order -0 below +0", "", float, double, long double) {
    constexpr TestType negative{-0.0}, positive{0.0};
    CHECK(std::signbit(min{}(negative, positive)));
    CHECK(std::signbit(min{}(positive, negative)));
    CHECK(std::signbit(max{}(negative, negative)));
    CHECK_FALSE(std::signbit(max{}(negative, positive)));
    CHECK_FALSE(std::signbit(max{}(positive, negative)));
    CHECK_FALSE(std::signbit(min{}(positive, positive)));
}

TEMPLATE_TEST_CASE("min and max of floats are one NaN if either operand is any NaN", "", float, double, long double) {
    constexpr TestType nan = std::numeric_limits<TestType>::quiet_NaN();
    for (const TestType other : edge_floats<TestType>()) {
        CHECK(all_give_nan(nan, other));
        CHECK(all_give_nan(-nan, other));
        CHECK(all_give_nan(static_cast<TestType>(std::nan("7")), other));
    }
}

TEST_CASE("min and max of floats are constant expressions") {
    STATIC_REQUIRE(min{}(-1.5, 2.0) == -1.5);
    STATIC_REQUIRE(max{}(-1.5f, 2.0f) == 2.0f);
    STATIC_REQUIRE(min{}(0.0L, -0.0L) == 0.0L);
    STATIC_REQUIRE(max{}(3.0L, 2.0L) == 3.0L);
    STATIC_REQUIRE(check_laws(max{}, {1.0, -1.0, std::numeric_limits<double>::quiet_NaN(), 0.0}));
}

TEST_CASE("min and max have the laws of the order of a type") {
    CHECK(check_laws(min{}, {std::string("b"), std::string("a"), std::string(), std::string("ab")}));
    CHECK(check_laws(max{}, {std::string("b"), std::string("a"), std::string(), std::string("ab")}));
    STATIC_REQUIRE(allfold::laws_of<min, std::string> == lattice);
    STATIC_REQUIRE(allfold::laws_of<min, std::pair<int, std::string>> == lattice);
    STATIC_REQUIRE_FALSE(allfold::operator_with_identity<min, std::string>);
    // The type is ordered partially, or its kind of order is unknown.
    STATIC_REQUIRE(allfold::laws_of<min, std::pair<float, int>> == law_set{});
    STATIC_REQUIRE(min{}(only_less{2}, only_less{1}).value == 1);
    STATIC_REQUIRE(allfold::laws_of<min, only_less> == law_set{});
    STATIC_REQUIRE_FALSE(allfold::binary_operation<min, unknown>);
}

TEST_CASE("min and max of merely equivalent values take the left one, and are not commutative") {
    constexpr letter small{'a'}, capital{'A'};
    STATIC_REQUIRE(allfold::laws_of<min, letter> == (law::associative | law::idempotent | law::exact));
    CHECK(check_laws(min{}, {small, capital, letter{'b'}}, same_letter{}));
    CHECK(check_laws(max{}, {small, capital, letter{'b'}}, same_letter{}));
    CHECK(min{}(small, capital).value == 'a');
    CHECK(min{}(capital, small).value == 'A');
    CHECK(max{}(small, capital).value == 'a');
    CHECK(max{}(capital, small).value == 'A');
}

TEST_CASE("identities of sum, product, min and max change nothing") {
    CHECK(allfold::identity_of<int>(sum{}) == 0);
    CHECK(allfold::identity_of<short>(product{}) == 1);
    CHECK(allfold::identity_of<int>(min{}) == std::numeric_limits<int>::max());
    CHECK(allfold::identity_of<int>(max{}) == std::numeric_limits<int>::min());
    CHECK(allfold::identity_of<unsigned>(max{}) == 0);
    CHECK(allfold::identity_of<float>(min{}) == std::numeric_limits<float>::infinity());
    CHECK(allfold::identity_of<float>(max{}) == -std::numeric_limits<float>::infinity());
}

TEST_CASE("sum and product fold types of which nothing is known, once their laws are declared") {
    STATIC_REQUIRE(sum{}(unknown{1}, unknown{2}).value == 4);
    STATIC_REQUIRE(product{}(unknown{1}, unknown{2}).value == -1);
    STATIC_REQUIRE_FALSE(allfold::associative_operator<sum, unknown>);
    STATIC_REQUIRE_FALSE(allfold::associative_operator<product, unknown>);
    STATIC_REQUIRE_FALSE(allfold::associative_operator<sum, std::string>);
    const auto concatenate = allfold::associative(sum{});
    STATIC_REQUIRE(allfold::associative_operator<decltype(concatenate), std::string>);
    STATIC_REQUIRE(allfold::commutative_operator<decltype(concatenate), int>);
    CHECK(concatenate(std::string("ab"), std::string("c")) == "abc");
}
