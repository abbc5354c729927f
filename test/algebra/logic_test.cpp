// SPDX-License-Identifier: BSL-1.0
#include "allfold/algebra/logic.hpp"

#include <bitset>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "allfold/algebra/check_laws.hpp"
#include "allfold/algebra/operator.hpp"
#include "test/support/catch.hpp"

using allfold::check_laws;
using allfold::law;
using allfold::law_set;

namespace {

constexpr law_set group = law::associative | law::commutative | law::exact;
constexpr law_set lattice = group | law::idempotent;

template <class T>
std::vector<T> bit_samples() {
    return {T{0}, T{1}, T{2}, T{0x55}, T{0x7f}, static_cast<T>(~T{})};
}

}  // namespace

TEST_CASE("logical operators on bool keep their laws") {
    CHECK(check_laws(allfold::logical_and{}, {false, true}));
    CHECK(check_laws(allfold::logical_or{}, {false, true}));
    CHECK(check_laws(allfold::logical_xor{}, {false, true}));
    STATIC_REQUIRE(allfold::laws_of<allfold::logical_and, bool> == lattice);
    STATIC_REQUIRE(allfold::laws_of<allfold::logical_or, bool> == lattice);
    STATIC_REQUIRE(allfold::laws_of<allfold::logical_xor, bool> == group);
    CHECK(allfold::identity_of<bool>(allfold::logical_and{}) == true);
    CHECK(allfold::identity_of<bool>(allfold::logical_or{}) == false);
    CHECK(allfold::identity_of<bool>(allfold::logical_xor{}) == false);
}

TEMPLATE_TEST_CASE("logical operators on numbers give 0 or 1, so that only bool has idempotency and an identity", "",
                   char, short, int, unsigned long, double) {
    const std::vector<TestType> samples{0, 1, 2, static_cast<TestType>(-1)};
    CHECK(check_laws(allfold::logical_and{}, samples));
    CHECK(check_laws(allfold::logical_or{}, samples));
    CHECK(check_laws(allfold::logical_xor{}, samples));
    CHECK(allfold::logical_and{}(TestType{2}, TestType{4}) == TestType{1});
    CHECK(allfold::logical_or{}(TestType{0}, TestType{4}) == TestType{1});
    CHECK(allfold::logical_xor{}(TestType{2}, TestType{4}) == TestType{0});
    STATIC_REQUIRE(allfold::laws_of<allfold::logical_and, TestType> == group);
    STATIC_REQUIRE(allfold::laws_of<allfold::logical_or, TestType> == group);
    STATIC_REQUIRE(allfold::laws_of<allfold::logical_xor, TestType> == group);
    STATIC_REQUIRE_FALSE(allfold::operator_with_identity<allfold::logical_and, TestType>);
    STATIC_REQUIRE_FALSE(allfold::operator_with_identity<allfold::logical_or, TestType>);
    STATIC_REQUIRE_FALSE(allfold::operator_with_identity<allfold::logical_xor, TestType>);
}

TEMPLATE_TEST_CASE("bitwise operators keep their laws on integers and bytes", "", char, signed char, unsigned short,
                   int, unsigned long long, std::byte) {
    const std::vector<TestType> samples = bit_samples<TestType>();
    CHECK(check_laws(allfold::bit_and{}, samples).text() == "all declared laws hold on 6 samples");
    CHECK(check_laws(allfold::bit_or{}, samples).text() == "all declared laws hold on 6 samples");
    CHECK(check_laws(allfold::bit_xor{}, samples).text() == "all declared laws hold on 6 samples");
    STATIC_REQUIRE(allfold::laws_of<allfold::bit_and, TestType> == lattice);
    STATIC_REQUIRE(allfold::laws_of<allfold::bit_or, TestType> == lattice);
    STATIC_REQUIRE(allfold::laws_of<allfold::bit_xor, TestType> == group);
    STATIC_REQUIRE(allfold::operator_with_identity<allfold::bit_and, TestType>);
    STATIC_REQUIRE(allfold::operator_with_identity<allfold::bit_or, TestType>);
    STATIC_REQUIRE(allfold::operator_with_identity<allfold::bit_xor, TestType>);
}

TEST_CASE("bitwise operators on bool are logical ones") {
    CHECK(check_laws(allfold::bit_and{}, {false, true}));
    CHECK(check_laws(allfold::bit_or{}, {false, true}));
    CHECK(check_laws(allfold::bit_xor{}, {false, true}));
    CHECK(allfold::identity_of<bool>(allfold::bit_and{}) == true);
    CHECK(allfold::bit_xor{}(true, true) == false);
}

TEST_CASE("the identity of bit_and has all bits set") {
    CHECK(allfold::identity_of<unsigned>(allfold::bit_and{}) == std::numeric_limits<unsigned>::max());
    CHECK(allfold::identity_of<std::byte>(allfold::bit_and{}) == std::byte{0xff});
}

TEST_CASE("bitwise operators fold other types with such operators once their laws are declared") {
    using set = std::bitset<8>;
    STATIC_REQUIRE(allfold::binary_operation<allfold::bit_or, set>);
    STATIC_REQUIRE_FALSE(allfold::associative_operator<allfold::bit_or, set>);
    STATIC_REQUIRE(allfold::commutative_operator<decltype(allfold::commutative(allfold::bit_or{})), set>);
    CHECK(allfold::commutative(allfold::bit_or{})(set(1), set(4)) == set(5));
}

TEST_CASE("logical and bitwise operators are not there for types without truth values or bits") {
    STATIC_REQUIRE_FALSE(allfold::binary_operation<allfold::logical_and, std::string>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<allfold::bit_and, float>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<allfold::bit_xor, std::string>);
}
