// SPDX-License-Identifier: BSL-1.0
#include "allfold/algebra/check_laws.hpp"

#include <array>
#include <complex>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/operator.hpp"
#include "test/support/catch.hpp"

using allfold::broken_law;
using allfold::check_laws;
using allfold::law;
using allfold::law_report;
using allfold::law_set;
using allfold::within;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// Declares these laws for `F`, whether it keeps them or not.
template <class F, law... Claimed>
struct claims : F {
    static constexpr law_set laws = (law_set{} | ... | law_set(Claimed));
};

struct subtract {
    constexpr int operator()(int a, int b) const { return a - b; }
};
struct left {
    constexpr int operator()(int a, int) const { return a; }
};
struct add {
    constexpr int operator()(int a, int b) const { return a + b; }
};
struct add_real {
    constexpr double operator()(double a, double b) const { return a + b; }
};
struct add_from_one : add {
    [[nodiscard]] static constexpr int identity() { return 1; }
};
/// Its identity works on the left side only.
struct right_unless_seven {
    constexpr int operator()(int, int b) const { return b; }
    [[nodiscard]] static constexpr int identity() { return 7; }
};

/// Forgets its offset when copied.
struct forgetful {
    int offset = 0;
    constexpr explicit forgetful(int value) : offset(value) {}
    constexpr forgetful(const forgetful&) {}
    constexpr int operator()(int a, int b) const { return a + b + offset; }
    static constexpr law_set laws = law::associative;
};

constexpr bool is(const law_report& report, broken_law broken, std::array<std::size_t, 3> at) {
    return report.broken == broken && report.at[0] == at[0] && report.at[1] == at[1] && report.at[2] == at[2];
}

}  // namespace

TEST_CASE("laws that hold are found to hold, in a static_assert too") {
    static_assert(check_laws(allfold::sum{}, {1, 2, 3}));
    constexpr law_report report = check_laws(allfold::max{}, {1.5, -2.0, 7.0});
    STATIC_REQUIRE(report);
    CHECK(report.text() == "all declared laws hold on 3 samples");
    CHECK(check_laws(allfold::sum{}, std::vector<int>{}).text() == "all declared laws hold on 0 samples");
}

TEST_CASE("a broken law is named together with the samples that break it") {
    SECTION("associative") {
        constexpr auto report = check_laws(claims<subtract, law::associative>{}, {0, 1});
        STATIC_REQUIRE_FALSE(report);
        STATIC_REQUIRE(is(report, broken_law::associative, {0, 0, 1}));
        CHECK(report.text() == "not associative: op(op(x[0], x[0]), x[1]) differs from op(x[0], op(x[0], x[1]))");
    }
    SECTION("commutative") {
        constexpr auto report = check_laws(claims<left, law::associative, law::commutative>{}, {5, 5, 6});
        STATIC_REQUIRE(is(report, broken_law::commutative, {0, 2, 0}));
        CHECK(report.text() == "not commutative: op(x[0], x[2]) differs from op(x[2], x[0])");
    }
    SECTION("idempotent") {
        constexpr auto report = check_laws(claims<add, law::associative, law::idempotent>{}, {0, 1});
        STATIC_REQUIRE(is(report, broken_law::idempotent, {1, 0, 0}));
        CHECK(report.text() == "not idempotent: op(x[1], x[1]) differs from x[1]");
    }
    SECTION("identity") {
        constexpr auto report = check_laws(claims<add_from_one, law::associative>{}, {4});
        STATIC_REQUIRE(is(report, broken_law::identity, {0, 0, 0}));
        CHECK(report.text() == "not the identity: op(e, x[0]) or op(x[0], e) differs from x[0]");
        CHECK(is(check_laws(claims<right_unless_seven, law::associative>{}, {7, 8}), broken_law::identity, {1, 0, 0}));
    }
    SECTION("exact, although associative within a tolerance") {
        const std::vector<double> samples{0.5, 0.1, 0.2, 0.3};
        const claims<add_real, law::associative, law::exact> op;
        const auto report = check_laws(op, samples, within(1e-12));
        CHECK(is(report, broken_law::exact, {0, 1, 3}));
        CHECK(report.text() ==
              "not exact: op(op(x[0], x[1]), x[3]) differs from op(x[0], op(x[1], x[3])) by a rounding error");
        CHECK(check_laws(claims<add_real, law::associative>{}, samples, within(1e-12)));
    }
    SECTION("copyable") {
        constexpr auto report = check_laws(forgetful(1), {4});
        STATIC_REQUIRE(is(report, broken_law::copyable, {0, 0, 0}));
        CHECK(report.text() == "not copyable: a copy's op(x[0], x[0]) differs from op(x[0], x[0])");
    }
}

TEST_CASE("laws that are not declared are not tested") {
    STATIC_REQUIRE(check_laws(claims<left, law::associative>{}, {1, 2}));
    STATIC_REQUIRE(check_laws(claims<add, law::associative, law::commutative>{}, {1, 2}));
}

TEST_CASE("samples may be a list, an array or a vector") {
    constexpr std::array array{1, 2, 3};
    const int built_in[] = {1, 2, 3};
    STATIC_REQUIRE(check_laws(allfold::min{}, array));
    CHECK(check_laws(allfold::min{}, built_in));
    CHECK(check_laws(allfold::min{}, std::vector{1, 2, 3}));
}

TEST_CASE("samples without == need an equality") {
    struct opaque {
        int value;
    };
    const auto larger = allfold::commutative([](opaque a, opaque b) { return a.value < b.value ? b : a; });
    const auto same = [](opaque a, opaque b) { return a.value == b.value; };
    CHECK(check_laws(larger, {opaque{1}, opaque{2}}, same));
}

TEST_CASE("same_value takes all NaNs for one value") {
    constexpr allfold::same_value same;
    STATIC_REQUIRE(same(not_a_number, not_a_number));
    STATIC_REQUIRE_FALSE(same(not_a_number, 0.0));
    STATIC_REQUIRE_FALSE(same(0.0, not_a_number));
    STATIC_REQUIRE(same(1.0, 1.0));
}

TEST_CASE("within compares relatively above 1 and absolutely below") {
    constexpr within close(1e-3);
    STATIC_REQUIRE(close(1000.0, 1000.9));
    STATIC_REQUIRE_FALSE(close(1000.0, 1001.1));
    STATIC_REQUIRE(close(-1000.0, -1000.9));
    STATIC_REQUIRE_FALSE(close(-1000.0, 1000.0));
    STATIC_REQUIRE(close(1e-9, 2e-9));
    STATIC_REQUIRE_FALSE(close(0.0F, 2e-3F));
}

TEST_CASE("within takes infinity and NaN for equal to themselves only") {
    constexpr within close(1e-3);
    STATIC_REQUIRE(close(infinity, infinity));
    STATIC_REQUIRE_FALSE(close(infinity, -infinity));
    STATIC_REQUIRE_FALSE(close(infinity, 1.0));
    STATIC_REQUIRE(close(not_a_number, not_a_number));
    STATIC_REQUIRE_FALSE(close(not_a_number, 1.0));
    STATIC_REQUIRE_FALSE(close(1.0, not_a_number));
}

TEST_CASE("within compares complex numbers by their parts, and ranges element by element") {
    const within close(1e-3);
    CHECK(close(std::complex(1000.0, 0.5), std::complex(1000.5, 0.0)));
    CHECK_FALSE(close(std::complex(1.0, 0.5), std::complex(1.0, 0.6)));
    CHECK_FALSE(close(std::complex(1.0, 0.5), std::complex(1.0, not_a_number)));
    CHECK(close(std::vector{1.0, 2.0}, std::vector{1.0001, 2.0}));
    CHECK_FALSE(close(std::vector{1.0, 2.0}, std::vector{1.0, 2.1}));
    CHECK_FALSE(close(std::vector{1.0, 2.0}, std::vector{1.0}));
}
