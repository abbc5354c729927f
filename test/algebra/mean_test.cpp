// SPDX-License-Identifier: BSL-1.0
#include "allfold/algebra/mean.hpp"

#include <cmath>
#include <complex>
#include <string>

#include "allfold/algebra/check_laws.hpp"
#include "allfold/algebra/operator.hpp"
#include "test/support/catch.hpp"

using allfold::law;
using allfold::mean;

TEST_CASE("a mean is a sum that is divided by the number of contributions at the end") {
    constexpr mean op;
    STATIC_REQUIRE(op.lower(op(op(1.0, 2.0), op(3.0, 6.0)), 4) == 3.0);
    STATIC_REQUIRE(op.lower(op(1.0f, 2.0f), 2) == 1.5f);
    CHECK(op.lower(op(std::complex(1.0, 2.0), std::complex(3.0, 0.0)), 2) == std::complex(2.0, 1.0));
    CHECK(op.lower(7.0, 1) == 7.0);
}

TEST_CASE("a mean of nothing is NaN") { CHECK(std::isnan(mean::lower(mean::identity<double>(), 0))); }

TEST_CASE("a mean has the laws of a sum of floats") {
    CHECK(allfold::check_laws(mean{}, {0.1, -7.0, 0.0, 1e6}, allfold::within(1e-12)));
    STATIC_REQUIRE(allfold::laws_of<mean, float> == (law::associative | law::commutative));
    STATIC_REQUIRE(allfold::operator_with_identity<mean, std::complex<float>>);
    STATIC_REQUIRE(allfold::lowering_operator<mean, float>);
    STATIC_REQUIRE(allfold::lowering_operator<mean, std::complex<double>>);
}

TEST_CASE("there is no mean of integers or strings") {
    STATIC_REQUIRE_FALSE(allfold::binary_operation<mean, int>);
    STATIC_REQUIRE_FALSE(allfold::lowering_operator<mean, int>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<mean, bool>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<mean, std::string>);
}
