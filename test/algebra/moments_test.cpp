// SPDX-License-Identifier: BSL-1.0
#include "allfold/algebra/moments.hpp"

#include <cmath>
#include <complex>
#include <cstddef>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "allfold/algebra/check_laws.hpp"
#include "allfold/algebra/operator.hpp"
#include "allfold/collective.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"

using namespace test;
using allfold::law;
using allfold::moments;
using allfold::moments_state;
using allfold::variance;

namespace {

constexpr auto nearly_same = []<class T>(const moments_state<T>& a, const moments_state<T>& b) {
    const allfold::within close(1e-12);
    return a.count == b.count && close(a.mean, b.mean) && close(a.m2, b.m2);
};

template <class T>
moments_state<T> of(const std::vector<T>& values) {
    moments_state<T> all;
    for (const T& x : values) all = moments()(all, moments_state(x));
    return all;
}

/// The definition, computed in two passes.
moments_state<double> in_two_passes(const std::vector<double>& values) {
    moments_state<double> all;
    all.count = static_cast<std::int64_t>(values.size());
    for (const double x : values) all.mean += x / static_cast<double>(values.size());
    for (const double x : values) all.m2 += (x - all.mean) * (x - all.mean);
    return all;
}

std::vector<double> random_values(std::size_t count, double around, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> value(around, 1);
    std::vector<double> values(count);
    for (double& x : values) x = value(random);
    return values;
}

}  // namespace

TEST_CASE("moments of 1, 2, 3 and 6 are 4, 3 and 14") {
    constexpr moments op;
    constexpr auto one = moments_state(1.0), two = moments_state(2.0), three = moments_state(3.0);
    STATIC_REQUIRE(op(one, two) == moments_state<double>(2, 1.5, 0.5));
    STATIC_REQUIRE(op(op(one, two), op(three, moments_state(6.0))) == moments_state<double>(4, 3, 14));
    STATIC_REQUIRE(op(op(op(one, two), three), moments_state(6.0)) == moments_state<double>(4, 3, 14));
    STATIC_REQUIRE(moments_state<double>(4, 3, 14).variance() == 3.5);
    STATIC_REQUIRE(moments_state<float>(3, 3, 14).sample_variance() == 7);
    CHECK(std::isnan(moments_state<double>().variance()));
    CHECK(std::isnan(one.sample_variance()));
}

TEST_CASE("moments lose nothing of numbers that lie far from 0, and of equal ones the variance is 0") {
    CHECK(of<double>({1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16}) == moments_state<double>(4, 1e9 + 10, 90));
    CHECK(of(std::vector<float>(1000, 0.1F)) == moments_state<float>(1000, 0.1F, 0));
    for (unsigned seed = 0; seed < 20; ++seed)
        for (const double around : {0.0, 1e6}) {
            const auto values = random_values(1 + 50 * seed, around, seed);
            const auto folded = of(values), expected = in_two_passes(values);
            CHECK(folded.count == expected.count);
            CHECK(allfold::within(1e-12)(folded.mean, expected.mean));
            CHECK(allfold::within(1e-9)(folded.m2, expected.m2));  // Σx² - (Σx)²/n would keep only three digits
        }
}

TEST_CASE("the mean of numbers whose sum is none is there still") {
    const double most = std::numeric_limits<double>::max(), least = std::numeric_limits<double>::denorm_min();
    CHECK(of(std::vector<double>(8, most)) == moments_state<double>(8, most, 0));
    CHECK(of(std::vector<double>(8, least)) == moments_state<double>(8, least, 0));
    CHECK(of(std::vector<float>{3e38F, 2e38F}).mean == 2.5e38F);
    using complex = std::complex<double>;
    CHECK(of<complex>({{most, 1}, {most, 3}}).mean == complex(most, 2));
}

TEST_CASE("moments of long doubles are as precise as these") {
    const auto all = moments()(moments_state(0.0L), moments_state(0.0L));
    CHECK(moments()(all, moments_state(1.0L)).mean == 1.0L / 3);
}

TEST_CASE("moments of complex numbers have a real variance") {
    using complex = std::complex<double>;
    const auto all = of<complex>({{1, 1}, {1, -1}, {-1, 1}, {-1, -1}});
    CHECK(all.mean == complex(0, 0));
    CHECK(all.variance() == 2.0);
    STATIC_REQUIRE(std::same_as<decltype(all.variance()), double>);
}

TEST_CASE("a part without numbers is the identity of moments, to the last bit") {
    constexpr auto none = moments::identity<moments_state<double>>();
    const double inf = std::numeric_limits<double>::infinity();
    for (const auto& part : {none, moments_state(0.1), moments_state(inf), moments_state<double>(7, 0.3, 1e-9)}) {
        CHECK(moments()(none, part) == part);
        CHECK(moments()(part, none) == part);
    }
    CHECK(std::isnan(moments()(moments_state(1.0), moments_state(std::nan(""))).variance()));
    CHECK_FALSE(std::isfinite(moments()(moments_state(inf), moments_state(1.0)).m2));
    CHECK_FALSE(std::isfinite(moments()(moments_state(1.0), moments_state(-inf)).mean));
}

TEST_CASE("moments keep their laws, and commute to the last bit") {
    const std::vector<moments_state<double>> samples{{},          {1, 0.1, 0},   {1, -3, 0},
                                                     {2, 1e6, 5}, {3, 0.1, 0.7}, {1000, -2, 9}};
    CHECK(allfold::check_laws(moments(), samples, nearly_same).text() == "all declared laws hold on 6 samples");
    for (const auto& a : samples)
        for (const auto& b : samples) CHECK(moments()(a, b) == moments()(b, a));
    STATIC_REQUIRE(allfold::laws_of<moments, moments_state<float>> == (law::associative | law::commutative));
    STATIC_REQUIRE(allfold::laws_of<variance, moments_state<float>> == (law::associative | law::commutative));
    STATIC_REQUIRE_FALSE(allfold::binary_operation<moments, double>);
    STATIC_REQUIRE_FALSE(allfold::lifting_operator<moments, int>);
    STATIC_REQUIRE_FALSE(allfold::lifting_operator<moments, std::string>);
}

#ifdef __FLT16_MAX__
TEST_CASE("moments of halves count further than a half can") {
    const moments_state<_Float16> many(100000, _Float16(1), _Float16(0)), one(_Float16(1));
    CHECK(moments()(many, one).count == 100001);
    CHECK(static_cast<float>(moments()(many, one).mean) == 1);
    CHECK(static_cast<float>(moments()(many, many).variance()) == 0);
    CHECK(static_cast<float>(of<_Float16>({-96, 160}).variance()) == 16384);
}
#endif

TEST_CASE("moments of what all ranks have: of states, of numbers, and their variance") {
    for (const int size : {1, 2, 3, 5, 8}) {
        std::vector<double> all;
        for (int r = 0; r < size; ++r)
            for (const double x : random_values(20 * static_cast<std::size_t>(r), 1e3, static_cast<unsigned>(r)))
                all.push_back(x);
        on_ranks(size, [&](auto& comm) {
            const int rank = comm.rank();
            auto mine = of(random_values(20 * static_cast<std::size_t>(rank), 1e3, static_cast<unsigned>(rank)));
            allfold::all_reduce(comm, mine, moments());
            const auto expected_of_all = in_two_passes(all);
            expect(mine.count == expected_of_all.count && allfold::within(1e-12)(mine.mean, expected_of_all.mean) &&
                       allfold::within(1e-9)(mine.m2, expected_of_all.m2),
                   "of states");

            std::vector<double> numbers{static_cast<double>(rank), 7}, variances(2);
            std::vector<moments_state<double>> states(2);
            allfold::all_reduce(comm, numbers, states, moments());
            const double expected = (size * size - 1) / 12.0;  // the variance of 0, 1, ..., P - 1
            expect(states[0].count == size && std::abs(states[0].mean - (size - 1) / 2.0) < 1e-12 &&
                       std::abs(states[0].variance() - expected) < 1e-12,
                   "of numbers");
            expect(states[1] == moments_state<double>(size, 7, 0), "of equal numbers");
            allfold::all_reduce(comm, numbers, variances, variance());
            expect(variances[0] == states[0].variance() && variances[1] == 0, "variance");
            const std::vector parts(2, moments_state<double>(static_cast<double>(rank)));
            allfold::all_reduce(comm, parts, variances, variance());
            expect(variances[1] == states[0].variance(), "variance of states");
            allfold::all_reduce(comm, numbers, variances, variance());
            allfold::all_reduce(comm, numbers, variance());
            expect(numbers == variances, "in place");
        });
    }
    SUCCEED();
}
