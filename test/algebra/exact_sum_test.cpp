// SPDX-License-Identifier: BSL-1.0
#include "allfold/algebra/exact_sum.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "allfold/algebra/check_laws.hpp"
#include "allfold/algebra/operator.hpp"
#include "allfold/collective.hpp"
#include "test/support/algorithms.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/remote.hpp"

using namespace test;
using allfold::exact_accumulator;
using allfold::exact_sum;
using allfold::law;

namespace {

template <class T>
constexpr T infinity = std::numeric_limits<T>::infinity();
template <class T>
constexpr T not_a_number = std::numeric_limits<T>::quiet_NaN();
template <class T>
constexpr T greatest = std::numeric_limits<T>::max();
template <class T>
constexpr T least = std::numeric_limits<T>::denorm_min();
/// Half the distance from 1 to the next larger number.
template <class T>
constexpr T half_ulp = std::numeric_limits<T>::epsilon() / 2;

template <class T>
constexpr bool same_bits(T a, T b) {
    using bits = allfold::detail::bits_of<T>;
    return std::bit_cast<bits>(a) == std::bit_cast<bits>(b);
}

template <class T>
constexpr exact_accumulator<T> accumulated(std::span<const T> values) {
    exact_accumulator<T> all;
    for (const T x : values) all += x;
    return all;
}
template <class T>
constexpr T total(std::initializer_list<T> values) {
    return accumulated(std::span<const T>(values.begin(), values.size()));
}

/// Shewchuk, "Adaptive precision floating-point arithmetic and fast robust geometric predicates", 1997: the sum as an
/// expansion, a list of doubles that do not overlap, rounded at the end as in Python's math.fsum. Partial sums must not
/// overflow.
double fsum(std::span<const double> values) {
    std::vector<double> parts;  // smallest first
    for (double x : values) {
        std::size_t kept = 0;
        for (double y : parts) {
            if (std::abs(x) < std::abs(y)) std::swap(x, y);
            const double high = x + y, low = y - (high - x);
            if (low != 0) parts[kept++] = low;
            x = high;
        }
        parts.resize(kept);
        parts.push_back(x);
    }
    double high = 0, low = 0;
    while (!parts.empty() && low == 0) {
        const double x = high, y = parts.back();
        parts.pop_back();
        high = x + y;
        low = y - (high - x);
    }
    if (!parts.empty() && (low < 0) == (parts.back() < 0)) {  // if this is a tie, the remaining parts break it
        const double y = 2 * low, x = high + y;
        if (y == x - high) high = x;
    }
    return high;
}

/// Numbers with exponents from `smallest` to `largest`, some of which cancel.
std::vector<double> random_doubles(std::size_t count, int smallest, int largest, unsigned seed) {
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> mantissa(-1, 1);
    std::uniform_int_distribution<int> exponent(smallest, largest);
    std::vector<double> values(count);
    for (double& x : values) x = std::ldexp(mantissa(random), exponent(random));
    for (std::size_t i = 0; i + 3 < count; i += 7) values[i + 3] = -values[i];
    return values;
}

/// The elements that a rank holds if `values` are dealt out one by one to `size` ranks.
template <class T>
std::vector<T> share(const std::vector<T>& values, int rank, int size) {
    std::vector<T> mine;
    for (auto i = static_cast<std::size_t>(rank); i < values.size(); i += static_cast<std::size_t>(size))
        mine.push_back(values[i]);
    return mine;
}

}  // namespace

TEMPLATE_TEST_CASE("an exact sum is right where numbers cancel, round and overflow on the way", "", float, double) {
    using T = TestType;
    constexpr T big = greatest<T>, small = least<T>, half = half_ulp<T>;
    STATIC_REQUIRE(total<T>({big, 1, -big}) == 1);
    STATIC_REQUIRE(total<T>({big, big, big, -big, -big}) == big);
    STATIC_REQUIRE(total<T>({big, small, -big}) == small);
    STATIC_REQUIRE(total<T>({small, -big, -small, small, big}) == small);
    STATIC_REQUIRE(total<T>({-big, -big, -big, big, big}) == -big);
    STATIC_REQUIRE(total<T>({1, half}) == 1);                        // tie, to even
    STATIC_REQUIRE(total<T>({1, half, small}) == 1 + 2 * half);      // more than half a step
    STATIC_REQUIRE(total<T>({1, half, -small}) == 1);                // less than half
    STATIC_REQUIRE(total<T>({1 + 2 * half, half}) == 1 + 4 * half);  // tie, to even, upwards
    STATIC_REQUIRE(total<T>({-1, -half, -small}) == -(1 + 2 * half));
    STATIC_REQUIRE(total<T>({2, -half}) == 2);  // carries into the exponent
    STATIC_REQUIRE(total<T>({2, -half, -half, -half}) == 2 - 4 * half);
    STATIC_REQUIRE(total<T>({}) == 0);
}

TEMPLATE_TEST_CASE("an exact sum of tiny numbers is subnormal, and of one number it is that number", "", float,
                   double) {
    using T = TestType;
    constexpr T small = least<T>, normal = std::numeric_limits<T>::min();
    STATIC_REQUIRE(total<T>({small, small, small}) == 3 * small);
    STATIC_REQUIRE(total<T>({normal, -small}) == normal - small);
    STATIC_REQUIRE(total<T>({-normal, small}) == small - normal);
    STATIC_REQUIRE(total<T>({normal - small, small}) == normal);
    for (const T x : {small, normal, normal - small, T(1), T(-0.1), greatest<T>, -greatest<T>})
        CHECK(same_bits(total<T>({x}), x));
}

TEMPLATE_TEST_CASE("an exact sum is infinite from half a step beyond the greatest number on", "", float, double) {
    using T = TestType;
    constexpr T big = greatest<T>;
    const T step = big - std::nextafter(big, T(0));
    CHECK(same_bits(total<T>({big, step / 2}), infinity<T>));
    CHECK(same_bits(total<T>({-big, -step / 2}), -infinity<T>));
    CHECK(same_bits(total<T>({big, step / 2, -least<T>}), big));
    CHECK(same_bits(total<T>({big, step / 4, step / 8}), big));
    CHECK(same_bits(total<T>({big, big}), infinity<T>));
}

TEMPLATE_TEST_CASE("infinities and NaN in an exact sum, and the sign of zero", "", float, double) {
    using T = TestType;
    constexpr T inf = infinity<T>, nan = not_a_number<T>;
    STATIC_REQUIRE(same_bits(total<T>({1, inf, -greatest<T>}), inf));
    STATIC_REQUIRE(same_bits(total<T>({1, -inf}), -inf));
    STATIC_REQUIRE(same_bits(total<T>({inf, -inf}), nan));
    STATIC_REQUIRE(same_bits(total<T>({-inf, 1, inf, inf}), nan));
    STATIC_REQUIRE(same_bits(total<T>({1, -nan}), nan));
    STATIC_REQUIRE(same_bits(total<T>({inf, nan}), nan));
    STATIC_REQUIRE(same_bits(total<T>({}), T(0)));
    STATIC_REQUIRE(same_bits(total<T>({1, -1}), T(0)));
    STATIC_REQUIRE(same_bits(total<T>({T(-0.0), T(0)}), T(0)));
    STATIC_REQUIRE(same_bits(total<T>({T(-0.0), T(-0.0)}), T(-0.0)));
    STATIC_REQUIRE(same_bits(total<T>({T(-0.0), 1, -1}), T(0)));
}

TEST_CASE("an exact sum of doubles of all sizes is Shewchuk's") {
    const unsigned seed = std::random_device()();
    INFO("seed " << seed);
    const int width = GENERATE(10, 100, 1900);
    for (unsigned turn = 0; turn < 200; ++turn) {
        const auto values = random_doubles(1 + turn, -1060, -1060 + width, seed + turn);
        const double sum = accumulated(std::span<const double>(values));
        CHECK(same_bits(sum, fsum(values) + 0.0));
    }
}

#ifdef __SIZEOF_INT128__
TEST_CASE("an exact sum of floats is that of the integers of 128 bits that they are, rounded once") {
    const unsigned seed = std::random_device()();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> mantissa(-(1 << 24), 1 << 24), exponent(0, 60);
    for (int turn = 0; turn < 300; ++turn) {
        exact_accumulator<float> sum;
        allfold::detail::int128 expected = 0;
        for (int i = 0; i <= turn; ++i) {
            const int m = mantissa(random), e = exponent(random);
            sum += std::ldexp(static_cast<float>(m), e - 30);
            expected += static_cast<allfold::detail::int128>(m) * (std::int64_t{1} << e);
        }
        CHECK(static_cast<float>(sum) == std::ldexp(static_cast<float>(expected), -30));
    }
}
#endif

TEMPLATE_TEST_CASE("exact sums keep their laws to the last bit, whatever is added", "", float, double) {
    using T = TestType;
    std::vector<exact_accumulator<T>> samples{exact_accumulator<T>()};
    for (const T x : {T(0), T(-0.0), least<T>, -least<T>, T(0.1), T(-1), greatest<T>, -greatest<T>, infinity<T>,
                      -infinity<T>, not_a_number<T>})
        samples.emplace_back(x);
    samples.push_back(exact_sum<T>()(samples[5], samples[8]));
    CHECK(allfold::check_laws(exact_sum<T>(), samples).text() == "all declared laws hold on 13 samples");
    STATIC_REQUIRE(allfold::laws_of<exact_sum<T>, exact_accumulator<T>> ==
                   (law::associative | law::commutative | law::exact));
    STATIC_REQUIRE(allfold::operator_with_identity<exact_sum<T>, exact_accumulator<T>>);
}

TEMPLATE_TEST_CASE("an exact sum has one representation, however it came about", "", float, double) {
    using T = TestType;
    STATIC_REQUIRE(exact_accumulator<T>(3) == exact_sum<T>()(exact_accumulator<T>(1), exact_accumulator<T>(2)));
    exact_accumulator<T> up, down;
    for (const T x : {greatest<T>, T(-1), least<T>}) up += x;
    for (const T x : {least<T>, T(-1), greatest<T>}) down += x;
    CHECK(up == down);
    up += T(1);
    CHECK_FALSE(up == down);
}

TEMPLATE_TEST_CASE("an exact sum can be added to itself", "", float, double) {
    for (const TestType x : {TestType(1), TestType(-1), TestType(-0.3), least<TestType>, -greatest<TestType> / 4}) {
        exact_accumulator<TestType> all;
        all += x;
        const auto same = all;
        all += *&all;
        CHECK(same_bits<TestType>(all, x + x));
        CHECK(all == exact_sum<TestType>()(same, same));
    }
}

TEST_CASE("exact sums lift numbers of their type alone, and keep accumulators as they are") {
    STATIC_REQUIRE(allfold::lifting_operator<exact_sum<double>, double>);
    STATIC_REQUIRE_FALSE(allfold::lifting_operator<exact_sum<double>, exact_accumulator<double>>);
    STATIC_REQUIRE_FALSE(allfold::lifting_operator<exact_sum<double>, float>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<exact_sum<double>, double>);
    STATIC_REQUIRE(std::is_trivially_copyable_v<exact_accumulator<double>>);
    STATIC_REQUIRE(sizeof(exact_accumulator<double>) == 280);
    STATIC_REQUIRE(sizeof(exact_accumulator<float>) == 56);
}

TEMPLATE_TEST_CASE("all_reduce gives the same exact bits for every P, algorithm and partition", "", float, double) {
    using T = TestType;
    std::vector<T> values;
    for (const double x : random_doubles(120, -100, 120, 5)) values.push_back(static_cast<T>(x));
    const T expected = accumulated(std::span<const T>(values));
    for (const int size : {1, 2, 3, 5, 8}) {
        const auto body = [&](auto& comm) {
            const std::vector<T> mine = share(values, comm.rank(), size);
            exact_accumulator<T> sum = accumulated(std::span<const T>(mine));
            const T from_states = allfold::all_reduce(comm, sum, exact_sum<T>());
            expect(same_bits(from_states, expected), "of accumulators");

            T naive = 0;  // each rank rounds its own sum, but the sum over the ranks is exact
            for (const T x : mine) naive += x;
            exact_accumulator<T> of_ranks;
            for (int r = 0; r < size; ++r) {
                T other = 0;
                for (const T x : share(values, r, size)) other += x;
                of_ranks += other;
            }
            const T once = allfold::all_reduce(comm, std::as_const(naive), exact_sum<T>());
            expect(same_bits(once, static_cast<T>(of_ranks)), "of single numbers");
        };
        on_ranks(size, body);
        on_ranks(
            size,
            [&](allfold::thread_communicator& base) {
                remote comm(base);
                body(comm);
            },
            roomy);
    }
    SUCCEED();
}

TEST_CASE("vectors of doubles are summed exactly by every algorithm, in place, in windows and by reduce_scatter") {
    constexpr std::size_t n = 40;
    for (const int size : {1, 2, 3, 5}) {
        std::vector<std::vector<double>> of_ranks;
        std::vector<double> expected(n);
        for (int r = 0; r < size; ++r) of_ranks.push_back(random_doubles(n, -40, 40, static_cast<unsigned>(r)));
        for (std::size_t i = 0; i < n; ++i) {
            exact_accumulator<double> all;
            for (const auto& each : of_ranks) all += each[i];
            expected[i] = all;
        }
        on_ranks(size, [&](auto& comm) {
            const auto& in = of_ranks[static_cast<std::size_t>(comm.rank())];
            for_each_algorithm(allfold::all_reduce, size, [&](const std::string& name, auto... options) {
                std::vector<double> out(n), x = in;
                allfold::all_reduce(comm, in, out, exact_sum<double>(), options...);
                expect(out == expected, name);
                allfold::all_reduce(comm, x, exact_sum<double>(), options..., allfold::window{600});
                expect(x == expected, name + ": in place, in windows");
            });
            const auto blocks = allfold::partition::ceil(n, size);
            const std::size_t first = blocks.offset(comm.rank()), count = blocks.extent(comm.rank());
            std::vector<double> shard(count);
            allfold::reduce_scatter(comm, in, shard, exact_sum<double>(), blocks);
            expect(std::equal(shard.begin(), shard.end(), expected.begin() + static_cast<std::ptrdiff_t>(first)),
                   "reduce_scatter");
            std::vector<double> before(n, -1);
            allfold::exclusive_scan(comm, in, before, exact_sum<double>());
            for (std::size_t i = 0; i < n; ++i) {
                exact_accumulator<double> lower;
                for (int r = 0; r < comm.rank(); ++r) lower += of_ranks[static_cast<std::size_t>(r)][i];
                expect(same_bits(before[i], comm.rank() > 0 ? static_cast<double>(lower) : 0.0), "exclusive_scan");
            }
        });
    }
    SUCCEED();
}
