// SPDX-License-Identifier: BSL-1.0
#include "allfold/algebra/top_k.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "allfold/algebra/check_laws.hpp"
#include "allfold/algebra/operator.hpp"
#include "allfold/collective.hpp"
#include "test/support/algorithms.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"

using namespace test;
using allfold::law;
using allfold::located;
using allfold::top;
using allfold::top_k;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

template <std::size_t K, class T>
constexpr top<T, K> top_of(const std::vector<located<T>>& values) {
    top<T, K> best;
    for (const auto& x : values) best.insert(x);
    return best;
}

/// Equality down to the last bit of the values.
constexpr auto same_bits = []<std::size_t K>(const top<double, K>& a, const top<double, K>& b) {
    return std::equal(a.places.begin(), a.places.end(), b.places.begin(),
                      [](const auto& x, const auto& y) {
                          return x.index == y.index &&
                                 std::bit_cast<std::uint64_t>(x.value) == std::bit_cast<std::uint64_t>(y.value);
                      }) &&
           a.count == b.count;
};

std::vector<located<int>> random_values(std::size_t count, std::int64_t first_index, unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> value(0, 30);  // many are equal
    std::vector<located<int>> values;
    for (std::size_t i = 0; i < count; ++i)
        values.push_back({value(random), first_index + static_cast<std::int64_t>(i)});
    return values;
}

/// The definition: sorts all values and takes the first K.
template <std::size_t K>
std::vector<located<int>> sorted_top(std::vector<located<int>> values) {
    std::ranges::sort(values, [](const auto& a, const auto& b) {
        return a.value != b.value ? a.value > b.value : a.index < b.index;
    });
    values.resize(std::min(K, values.size()));
    return values;
}

template <std::size_t K>
bool holds(const top<int, K>& best, const std::vector<located<int>>& expected) {
    return std::ranges::equal(best.found(), expected);
}

}  // namespace

TEST_CASE("top holds the greatest values, the greatest first, of equal ones the lowest indices") {
    for (unsigned seed = 0; seed < 50; ++seed) {
        const auto values = random_values(seed, 0, seed);
        CHECK(holds(top_of<1>(values), sorted_top<1>(values)));
        CHECK(holds(top_of<5>(values), sorted_top<5>(values)));
    }
}

TEST_CASE("two tops merge to the top of both, also where there are fewer than K") {
    STATIC_REQUIRE(top_k<int, 2>()(top_k<int, 2>::lift({3, 0}), {}).count == 1);
    for (unsigned seed = 0; seed < 50; ++seed)
        for (const std::size_t cut : {std::size_t{0}, std::size_t{seed / 3}, std::size_t{seed}}) {
            const auto values = random_values(seed, 0, seed);
            const auto middle = values.begin() + static_cast<std::ptrdiff_t>(cut);
            const std::vector left(values.begin(), middle), right(middle, values.end());
            CHECK(top_k<int, 4>()(top_of<4>(left), top_of<4>(right)) == top_of<4>(values));
            CHECK(top_k<int, 4>()(top_of<4>(right), top_of<4>(left)) == top_of<4>(values));
        }
}

TEST_CASE("top_k keeps its laws to the last bit, with zeros, infinities, NaN and what is found twice") {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const std::vector<located<double>> all{{-0.0, 1},     {0.0, 5}, {0.0, 0},          {-infinity, 3},   {1.0, 2},
                                           {infinity, 4}, {1.0, 2}, {not_a_number, 9}, {not_a_number, 6}};
    std::vector<top<double, 3>> samples{{}};
    for (const auto& x : all) samples.push_back(top_k<double, 3>::lift(x));
    samples.push_back(top_of<3>(all));
    samples.push_back(top_of<3, double>({{1.0, 2}, {0.0, 0}}));
    CHECK(allfold::check_laws(top_k<int, 2>(), {top_k<int, 2>::lift({1, 1}), top_k<int, 2>::lift({1, 1})}));
    STATIC_REQUIRE(allfold::laws_of<top_k<double, 3>, top<double, 3>> ==
                   (law::associative | law::commutative | law::exact));
    // Exactness is checked by comparing bits, because NaN is not equal to itself.
    const auto op =
        allfold::commutative([](const top<double, 3>& a, const top<double, 3>& b) { return top_k<double, 3>()(a, b); });
    CHECK(allfold::check_laws(op, samples, same_bits).text() == "all declared laws hold on 12 samples");
    for (const auto& x : samples) CHECK(same_bits(top_k<double, 3>()(x, top_k<double, 3>::identity()), x));
}

TEST_CASE("top_k ranks as max_loc does: NaN before numbers, +0 before -0") {
    const auto best = top_of<4, double>({{-0.0, 0}, {0.0, 1}, {1.0, 2}, {not_a_number, 8}, {not_a_number, 3}});
    std::vector<std::int64_t> indices;
    for (const auto& x : best.found()) indices.push_back(x.index);
    CHECK(indices == std::vector<std::int64_t>{3, 8, 2, 1});
}

TEST_CASE("top_k has the laws of the order of values") {
    STATIC_REQUIRE(allfold::commutative_operator<top_k<std::string, 2>, top<std::string, 2>>);
    STATIC_REQUIRE_FALSE(allfold::idempotent_operator<top_k<int, 2>, top<int, 2>>);
    struct only_less {
        int value;
        bool operator<(only_less b) const { return value < b.value; }
        bool operator==(const only_less&) const = default;
    };
    STATIC_REQUIRE_FALSE(allfold::associative_operator<top_k<only_less, 2>, top<only_less, 2>>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<top_k<int, 2>, int>);
}

TEST_CASE("the top of what all ranks have is the same for every P and algorithm") {
    constexpr std::size_t K = 6;
    for (const int size : {1, 2, 3, 5, 8}) {
        std::vector<std::vector<located<int>>> of_ranks;
        std::vector<located<int>> all;
        for (int r = 0; r < size; ++r) {  // rank 0 has none, rank 1 fewer than K
            const auto& each = of_ranks.emplace_back(
                random_values(4 * static_cast<std::size_t>(r), std::int64_t{1000} * r, static_cast<unsigned>(r)));
            all.insert(all.end(), each.begin(), each.end());
        }
        on_ranks(size, [&](auto& comm) {
            for_each_algorithm(allfold::all_reduce, size, [&](const std::string& name, auto... options) {
                auto best = top_of<K>(of_ranks[static_cast<std::size_t>(comm.rank())]);
                allfold::all_reduce(comm, best, top_k<int, K>(), options...);
                expect(holds(best, sorted_top<K>(all)), name);
            });
            const std::vector<located<int>> one{{comm.rank() % 2, comm.rank()}};
            std::vector<top<int, 2>> two(1);
            allfold::all_reduce(comm, one, two, top_k<int, 2>());
            expect(two[0].places[0] == located{size > 1 ? 1 : 0, size > 1 ? 1 : 0}, "of located values");
        });
    }
    SUCCEED();
}
