// SPDX-License-Identifier: BSL-1.0
#include "allfold/algebra/standard_functors.hpp"

#include <complex>
#include <cstddef>
#include <functional>
#include <string>

#include "allfold/algebra/check_laws.hpp"
#include "allfold/algebra/operator.hpp"
#include "test/support/catch.hpp"

using allfold::check_laws;
using allfold::law;
using allfold::law_set;
using allfold::laws_of;
using allfold::within;

namespace {

constexpr law_set ring = law::associative | law::commutative;
constexpr law_set group = ring | law::exact;
constexpr law_set lattice = group | law::idempotent;

struct unknown {
    unknown operator+(unknown) const { return {}; }
};

}  // namespace

TEST_CASE("std::plus and std::multiplies have the laws of numbers") {
    CHECK(check_laws(std::plus<>{}, {-1, 0, 1, 1000}));
    CHECK(check_laws(std::multiplies<int>{}, {-1, 0, 1, 1000}));
    CHECK(check_laws(std::plus<double>{}, {-1.1, 0.0, 0.3}, within(1e-12)));
    CHECK(check_laws(std::multiplies<>{}, {std::complex<float>(0, 1), std::complex<float>(2, -3)}, within(1e-6)));
    STATIC_REQUIRE(laws_of<std::plus<>, int> == group);
    STATIC_REQUIRE(laws_of<std::plus<int>, int> == group);
    STATIC_REQUIRE(laws_of<std::plus<>, float> == ring);
    STATIC_REQUIRE(laws_of<std::multiplies<double>, double> == ring);
    STATIC_REQUIRE(laws_of<std::plus<>, std::complex<double>> == ring);
}

TEST_CASE("std::logical and std::bit functors have the laws of truth values and bits") {
    CHECK(check_laws(std::logical_and<>{}, {false, true}));
    CHECK(check_laws(std::logical_or<int>{}, {0, 1, 2}));
    CHECK(check_laws(std::bit_and<>{}, {std::byte{1}, std::byte{6}, std::byte{0xff}}));
    CHECK(check_laws(std::bit_or<short>{}, {short{1}, short{-1}, short{6}}));
    CHECK(check_laws(std::bit_xor<unsigned>{}, {1U, 6U, ~0U}));
    STATIC_REQUIRE(laws_of<std::logical_and<>, bool> == lattice);
    STATIC_REQUIRE(laws_of<std::logical_or<>, int> == group);
    STATIC_REQUIRE(laws_of<std::bit_and<>, int> == lattice);
    STATIC_REQUIRE(laws_of<std::bit_or<std::byte>, std::byte> == lattice);
    STATIC_REQUIRE(laws_of<std::bit_xor<>, unsigned> == group);
}

TEST_CASE("std::plus on strings is associative and exact, but not commutative") {
    CHECK(check_laws(std::plus<>{}, {std::string(), std::string("a"), std::string("b"), std::string("ab")}));
    CHECK(check_laws(std::plus<std::wstring>{}, {std::wstring(L"a"), std::wstring(L"b")}));
    STATIC_REQUIRE(laws_of<std::plus<>, std::string> == (law::associative | law::exact));
    STATIC_REQUIRE_FALSE(allfold::commutative_operator<std::plus<>, std::string>);
}

TEST_CASE("standard functors have no laws on types of which nothing is known, nor on elements of another type") {
    STATIC_REQUIRE(laws_of<std::plus<>, unknown> == law_set{});
    STATIC_REQUIRE(laws_of<std::plus<int>, double> == law_set{});
    STATIC_REQUIRE(laws_of<std::logical_and<>, std::string> == law_set{});
}

TEST_CASE("standard functors that are not associative have no laws") {
    STATIC_REQUIRE(laws_of<std::minus<>, int> == law_set{});
    STATIC_REQUIRE(laws_of<std::divides<double>, double> == law_set{});
    STATIC_REQUIRE(laws_of<std::modulus<>, int> == law_set{});
    STATIC_REQUIRE(laws_of<std::less<>, bool> == law_set{});
    STATIC_REQUIRE(laws_of<std::equal_to<>, bool> == law_set{});
}
