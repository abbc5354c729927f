// SPDX-License-Identifier: BSL-1.0
#include <complex>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/check_laws.hpp"
#include "allfold/algebra/location.hpp"
#include "allfold/algebra/logic.hpp"
#include "allfold/algebra/mean.hpp"
#include "allfold/collective.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/remote.hpp"

/// @file
/// Numbers that <type_traits> does not recognise in strict standard mode (128-bit integers, 16-bit floats), and complex
/// numbers.

using allfold::law;
using allfold::law_set;
using allfold::max;
using allfold::min;
using allfold::product;
using allfold::sum;

namespace {

constexpr law_set ring = law::associative | law::commutative;
constexpr law_set lattice = ring | law::idempotent | law::exact;

/// Checks what `sum` gives on five ranks, with shared memory and without: for three small numbers on each rank, and in
/// an exclusive_scan.
template <class T>
void check_on_ranks() {
    const auto body = [](auto& comm) {
        const int rank = comm.rank(), size = comm.size();
        std::vector<T> x;
        for (int i = 0; i < 3; ++i) x.push_back(static_cast<T>(static_cast<float>(8 * i + rank)));
        allfold::all_reduce(comm, x, sum{});
        for (int i = 0; i < 3; ++i) {
            const int expected = 8 * i * size + size * (size - 1) / 2;
            test::expect(x[static_cast<std::size_t>(i)] == static_cast<T>(static_cast<float>(expected)), "sum");
        }
        T one = static_cast<T>(1.0F);
        allfold::exclusive_scan(comm, one, sum{});
        test::expect(one == static_cast<T>(static_cast<float>(rank)), "exclusive_scan");
    };
    test::on_ranks(5, body);
    const auto apart = [&](allfold::thread_communicator& base) {
        test::remote comm(base);
        body(comm);
    };
    test::on_ranks(5, apart, test::roomy);
}

template <class T>
void check_operators(const std::vector<T>& samples, law_set laws) {
    STATIC_REQUIRE(allfold::operator_with_identity<sum, T>);
    STATIC_REQUIRE(allfold::operator_with_identity<product, T>);
    STATIC_REQUIRE(allfold::operator_with_identity<min, T>);
    STATIC_REQUIRE(allfold::operator_with_identity<max, T>);
    CHECK(allfold::laws_of<sum, T> == laws);
    CHECK(allfold::laws_of<product, T> == laws);
    CHECK(allfold::laws_of<min, T> == lattice);
    CHECK(allfold::laws_of<allfold::min_loc, allfold::located<T>> == lattice);
    CHECK(check_laws(sum{}, samples));
    CHECK(check_laws(product{}, samples));
    CHECK(check_laws(min{}, samples));
    CHECK(check_laws(max{}, samples));
}

}  // namespace

#ifdef __SIZEOF_INT128__
using allfold::detail::int128;
using allfold::detail::uint128;

TEMPLATE_TEST_CASE("integers of 128 bits are added, multiplied, compared and masked", "", int128, uint128) {
    constexpr TestType top = allfold::identity_of<TestType>(min{}), bottom = allfold::identity_of<TestType>(max{});
    STATIC_REQUIRE(sum{}(top, TestType{1}) == bottom);  // wraps around
    STATIC_REQUIRE(product{}(top, top) == TestType{1});
    STATIC_REQUIRE(top > (TestType{1} << 126));
    const std::vector<TestType> samples{bottom, bottom + 1, 0, 1, 3, TestType{1} << 100, top - 1, top};
    check_operators(samples, ring | law::exact);
    CHECK(check_laws(allfold::bit_and{}, samples));
    CHECK(check_laws(allfold::bit_or{}, samples));
    CHECK(check_laws(allfold::bit_xor{}, samples));
    CHECK(check_laws(allfold::logical_and{}, samples));
    check_on_ranks<TestType>();
}
#endif

#ifdef __FLT16_MAX__
TEST_CASE("floats of 16 bits are added, multiplied and compared") {
    using T = _Float16;
    const T infinity = allfold::identity_of<T>(min{});
    CHECK(allfold::identity_of<T>(max{}) == -infinity);
    CHECK(infinity - infinity != infinity - infinity);
    const T nan = min{}(T(1), infinity - infinity), negative_zero = min{}(T(0), T(-0.0));
    CHECK(nan != nan);
    CHECK(T(1) / negative_zero == -infinity);
    CHECK(T(1) / max{}(T(-0.0), T(0)) == infinity);
    CHECK(T(1) / min{}(T(-0.0), T(0)) == -infinity);
    check_operators(std::vector<T>{-infinity, T(-2), T(-1), T(0), T(0.5), T(1), infinity}, ring);
    STATIC_REQUIRE(allfold::commutative_operator<allfold::mean, T>);
    check_on_ranks<T>();
}
#endif

TEMPLATE_TEST_CASE("complex numbers are added and multiplied", "", std::complex<float>, std::complex<double>) {
    STATIC_REQUIRE(allfold::laws_of<sum, TestType> == ring);
    STATIC_REQUIRE(allfold::laws_of<product, TestType> == ring);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<min, TestType>);
    CHECK(check_laws(sum{}, {TestType(1, 2), TestType(-3, 0.5), TestType(0, 1)}));
    CHECK(check_laws(product{}, {TestType(1, 2), TestType(-3, 0.5), TestType(0, 1)}));
    check_on_ranks<TestType>();
}

TEST_CASE("what is no number by itself does not become one by its shape") {
    enum plain { one };
    enum class scoped { one };
    struct with_value_type {
        using value_type = int;
    };
    STATIC_REQUIRE_FALSE(allfold::detail::number<bool>);
    STATIC_REQUIRE_FALSE(allfold::detail::number<plain>);
    STATIC_REQUIRE_FALSE(allfold::detail::number<scoped>);
    STATIC_REQUIRE_FALSE(allfold::detail::number<void*>);
    STATIC_REQUIRE_FALSE(allfold::detail::number<int[2]>);
    STATIC_REQUIRE_FALSE(allfold::detail::number<with_value_type>);
    STATIC_REQUIRE_FALSE(allfold::detail::real_number<int>);
}
