// SPDX-License-Identifier: BSL-1.0
#include "allfold/algebra/location.hpp"

#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "allfold/algebra/check_laws.hpp"
#include "allfold/algebra/operator.hpp"
#include "test/support/catch.hpp"

using allfold::check_laws;
using allfold::law;
using allfold::located;
using allfold::max_loc;
using allfold::min_loc;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

/// Equality down to the last bit of the value.
constexpr auto same_bits = [](const located<double>& a, const located<double>& b) {
    return a.index == b.index && std::bit_cast<std::uint64_t>(a.value) == std::bit_cast<std::uint64_t>(b.value);
};

struct only_less {
    int value;
    friend constexpr bool operator<(only_less a, only_less b) { return a.value < b.value; }
};

}  // namespace

TEST_CASE("min_loc and max_loc give the extreme value and its index") {
    STATIC_REQUIRE(min_loc{}(located{3, 0}, located{2, 1}) == located{2, 1});
    STATIC_REQUIRE(min_loc{}(located{2, 0}, located{3, 1}) == located{2, 0});
    STATIC_REQUIRE(max_loc{}(located{3, 0}, located{2, 1}) == located{3, 0});
    STATIC_REQUIRE(max_loc{}(located{2, 0}, located{3, 1}) == located{3, 1});
}

TEST_CASE("min_loc and max_loc give the lowest index of equal values, whatever the order of operands") {
    for (const auto& [low, high] :
         {std::pair(located{5, -7}, located{5, 2}), std::pair(located{5, 2}, located{5, 3})}) {
        CHECK(min_loc{}(low, high) == low);
        CHECK(min_loc{}(high, low) == low);
        CHECK(max_loc{}(low, high) == low);
        CHECK(max_loc{}(high, low) == low);
    }
}

TEST_CASE("min_loc and max_loc keep their laws to the last bit, with zeros, infinities and NaN") {
    const std::vector<located<double>> samples{{-infinity, 4},    {-1.0, 3},         {-0.0, 1},    {-0.0, 9},
                                               {0.0, 0},          {0.0, 5},          {1.0, 2},     {1.0, 1},
                                               {not_a_number, 7}, {not_a_number, 6}, {infinity, 8}};
    CHECK(check_laws(min_loc{}, samples, same_bits).text() == "all declared laws hold on 11 samples");
    CHECK(check_laws(max_loc{}, samples, same_bits).text() == "all declared laws hold on 11 samples");
    STATIC_REQUIRE(allfold::laws_of<min_loc, located<double>> ==
                   (law::associative | law::commutative | law::idempotent | law::exact));
}

TEST_CASE("min_loc and max_loc keep their laws on the edges of integers") {
    constexpr auto lowest = std::numeric_limits<int>::min(), highest = std::numeric_limits<int>::max();
    const std::vector<located<int>> samples{{lowest, 3}, {lowest, 1}, {0, 0}, {highest, 2}, {highest, 4}};
    CHECK(check_laws(min_loc{}, samples));
    CHECK(check_laws(max_loc{}, samples));
}

TEST_CASE("min_loc and max_loc rank -0 below +0, as min and max do") {
    CHECK(min_loc{}(located{0.0, 0}, located{-0.0, 1}).index == 1);
    CHECK(min_loc{}(located{-0.0, 1}, located{0.0, 0}).index == 1);
    CHECK(max_loc{}(located{-0.0, 0}, located{0.0, 1}).index == 1);
    CHECK(max_loc{}(located{0.0, 1}, located{-0.0, 0}).index == 1);
    CHECK(min_loc{}(located{0.0L, 0}, located{-0.0L, 1}).index == 1);
}

TEST_CASE("min_loc and max_loc find the first NaN if there is any") {
    for (const double other : {-infinity, -1.0, 0.0, infinity}) {
        CHECK(min_loc{}(located{other, 0}, located{not_a_number, 1}).index == 1);
        CHECK(min_loc{}(located{not_a_number, 1}, located{other, 0}).index == 1);
        CHECK(max_loc{}(located{other, 0}, located{not_a_number, 1}).index == 1);
        CHECK(max_loc{}(located{not_a_number, 1}, located{other, 0}).index == 1);
    }
    CHECK(min_loc{}(located{not_a_number, 5}, located{not_a_number, 3}).index == 3);
    CHECK(max_loc{}(located{not_a_number, 3}, located{not_a_number, 5}).index == 3);
}

TEST_CASE("identities of min_loc and max_loc lose against everything that was found") {
    const auto least = allfold::identity_of<located<int>>(max_loc{});
    CHECK(max_loc{}(least, located{std::numeric_limits<int>::min(), 12}).index == 12);
    const auto greatest = allfold::identity_of<located<double>>(min_loc{});
    CHECK(min_loc{}(greatest, located{infinity, 12}).index == 12);
    CHECK(min_loc{}(located{infinity, 12}, greatest).index == 12);
}

TEST_CASE("min_loc and max_loc have the laws of the order of values") {
    CHECK(check_laws(min_loc{},
                     {located{std::string("b"), 0}, located{std::string("a"), 1}, located{std::string("a"), 2}}));
    STATIC_REQUIRE(allfold::commutative_operator<min_loc, located<std::string>>);
    STATIC_REQUIRE_FALSE(allfold::operator_with_identity<min_loc, located<std::string>>);
    STATIC_REQUIRE(min_loc{}(located{only_less{2}, 0}, located{only_less{1}, 1}).index == 1);
    STATIC_REQUIRE_FALSE(allfold::associative_operator<min_loc, located<only_less>>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<min_loc, int>);
}
