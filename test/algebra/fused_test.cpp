// SPDX-License-Identifier: BSL-1.0
#include "allfold/algebra/fused.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/check_laws.hpp"
#include "allfold/algebra/exact_sum.hpp"
#include "allfold/algebra/location.hpp"
#include "allfold/algebra/mean.hpp"
#include "allfold/algebra/operator.hpp"
#include "allfold/collective.hpp"
#include "allfold/data/records.hpp"
#include "allfold/data/tensor_view.hpp"
#include "test/support/algorithms.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"

using namespace test;
using allfold::exact_sum;
using allfold::fused;
using allfold::law;
using allfold::laws_of;
using allfold::max;
using allfold::mean;
using allfold::min;
using allfold::records;
using allfold::row;
using allfold::sum;
using allfold::tensor;

namespace {

constexpr auto commutes = law::associative | law::commutative;
constexpr auto join = allfold::associative([](const std::string& a, const std::string& b) { return a + b; });

using max_and_sum = fused<max, sum>;

/// Folds x², in the type of x, and takes the square root of the total.
struct norm : sum {
    static double lift(double x) { return x * x; }
    static double lower(double total, int) { return std::sqrt(total); }
};

/// Lifts a float to a double, which cannot be an element of a tensor of floats.
struct sum_in_double : sum {
    static double lift(float x) { return x; }
};

constexpr int sizes[] = {1, 2, 3, 5, 8};
/// Short enough for a cell, short enough for a slot, and long enough to be lent.
constexpr std::size_t lengths[] = {0, 1, 700, 6000};

}  // namespace

TEST_CASE("fused folds each member of a tuple, pair or array by its own operator") {
    constexpr fused op{max(), sum(), min()};
    STATIC_REQUIRE(op(std::tuple(1, 2.5, 'b'), std::tuple(3, 4.0, 'a')) == std::tuple(3, 6.5, 'a'));
    STATIC_REQUIRE(max_and_sum(max(), sum())(std::pair(7, 1), std::pair(5, 1)) == std::pair(7, 2));
    STATIC_REQUIRE(max_and_sum(max(), sum())(std::array{7, 1}, std::array{5, 1}) == std::array{7, 2});
    CHECK(fused{join, sum()}(std::pair(std::string("a"), 1), {"b", 2}) == std::pair(std::string("ab"), 3));
}

TEST_CASE("fused has the laws that all operators have on their parts") {
    STATIC_REQUIRE(laws_of<max_and_sum, std::pair<int, int>> == (commutes | law::exact));
    STATIC_REQUIRE(laws_of<max_and_sum, std::pair<int, float>> == commutes);
    STATIC_REQUIRE(laws_of<max_and_sum, row<int, float>> == commutes);
    STATIC_REQUIRE(laws_of<fused<max, min>, row<float, int>> == (commutes | law::idempotent | law::exact));
    using joined = fused<decltype(join), sum>;
    STATIC_REQUIRE(laws_of<joined, std::tuple<std::string, int>> == allfold::law_set(law::associative));
    STATIC_REQUIRE_FALSE(allfold::commutative_operator<joined, std::tuple<std::string, int>>);
    CHECK(allfold::check_laws(fused{max(), sum()}, {std::pair(1, 2), std::pair(-4, 0), std::pair(7, 7)}));
    CHECK(allfold::check_laws(fused{join, sum()}, {std::pair<std::string, int>("a", 2), {"", 0}, {"bc", 1}}));
}

TEST_CASE("fused is commutative at run time if all operators are, by their types or by what they say") {
    const auto says = [](bool flag) { return allfold::commutative_if(flag, std::plus<int>()); };
    using numbers = std::pair<int, int>;
    for (const bool flag : {false, true}) {
        CHECK(allfold::detail::commutes<numbers>(fused{says(flag), sum()}) == flag);
        CHECK(allfold::detail::commutes<numbers>(fused{says(flag), says(true)}) == flag);
        CHECK(allfold::detail::commutes<row<int, int>>(fused{max(), says(flag)}) == flag);
    }
    using with_join = fused<decltype(join), decltype(says(true))>;
    STATIC_REQUIRE_FALSE(allfold::detail::says_commutative<with_join, std::pair<std::string, int>>);
    STATIC_REQUIRE_FALSE(allfold::detail::says_commutative<fused<sum, sum>, numbers>);
}

TEST_CASE("fused has an identity if all operators have one") {
    STATIC_REQUIRE(allfold::identity_of<std::pair<int, float>>(fused{max(), sum()}) ==
                   std::pair(std::numeric_limits<int>::min(), 0.0F));
    STATIC_REQUIRE_FALSE(allfold::operator_with_identity<fused<decltype(join), sum>, std::pair<std::string, int>>);
}

TEST_CASE("fused needs as many operators as there are parts, and each must fold its own") {
    STATIC_REQUIRE(allfold::binary_operation<max_and_sum, row<int, float>>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<max_and_sum, row<int, float, float>>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<max_and_sum, std::tuple<int>>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<max_and_sum, int>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<fused<mean, sum>, std::pair<int, int>>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<fused<mean, sum>, row<int, int>>);
    STATIC_REQUIRE_FALSE(allfold::binary_operation<fused<sum_in_double, sum>, row<float, int>>);  // folded unlifted
    STATIC_REQUIRE(allfold::binary_operation<fused<norm, sum>, row<double, int>>);
}

TEST_CASE("records are folded by a fused operator, by every algorithm, in place and in windows") {
    for (const int size : sizes)
        on_ranks(size, [&](auto& comm) {
            const int rank = comm.rank();
            for_each_algorithm(allfold::all_reduce, size, [&](const std::string& name, auto... options) {
                for (const std::size_t n : lengths) {
                    std::vector<float> a(n, static_cast<float>(rank)), c(n);
                    std::vector<int> b(2 * n, rank), d(2 * n);
                    const auto of = [n](auto& x, auto& y) { return records(x, tensor<int, 2>(y.data(), {n, 2})); };
                    allfold::all_reduce(comm, of(a, b), of(c, d), fused{max(), sum()}, options...);
                    expect(c == std::vector(n, static_cast<float>(size - 1)), name + ": max");
                    expect(d == std::vector(2 * n, size * (size - 1) / 2), name + ": sum");
                    allfold::all_reduce(comm, of(a, b), fused{max(), sum()}, options..., allfold::window{500});
                    expect(a == c && b == d, name + ": in place");
                }
            });
        });
    SUCCEED();
}

TEST_CASE("tensors of one type are told apart by a fused operator, whose parts may lift, lower and have state") {
    for (const int size : sizes)
        on_ranks(size, [&](auto& comm) {
            const double rank = comm.rank(), last = size - 1;
            for (const std::size_t n : lengths) {
                std::vector<double> a(n, rank), b(n, rank), c(n, 2);
                const double factor = 3;
                const auto scaled = allfold::commutative([&](double x, double y) { return (x + y) * factor / 3; });
                allfold::all_reduce(comm, records(a, b, c), fused{mean(), scaled, norm()});
                expect(a == std::vector(n, last / 2) && b == std::vector(n, size * last / 2), "mean, sum");
                expect(c == std::vector(n, std::sqrt(4.0 * size)), "norm");
            }
            std::vector<double> a{rank + 1}, b{rank + 1};
            std::vector<double> least(1, -1), total(1, -1);
            allfold::exclusive_scan(comm, records(a, b), records(least, total), fused{min(), sum()});
            expect(least[0] == (rank == 0 ? std::numeric_limits<double>::infinity() : 1), "identity of min");
            expect(total[0] == rank * (rank + 1) / 2, "identity of sum");
        });
    SUCCEED();
}

TEST_CASE("tuples travel as elements, also where their members are lifted to other types") {
    for (const int size : sizes)
        on_ranks(size, [&](auto& comm) {
            const int rank = comm.rank();
            std::vector<std::tuple<int, float, double>> x(3, {rank, 1.0F, rank});
            allfold::all_reduce(comm, x, fused{max(), sum(), mean()});
            expect(x[2] == std::tuple(size - 1, static_cast<float>(size), (size - 1) / 2.0), "tuples");

            const double huge = rank == 0 ? 1e300 : rank == 1 ? -1e300 : 1;
            const std::pair both(huge, allfold::located(rank, rank));
            const auto all = allfold::all_reduce(comm, both, fused{exact_sum<double>(), allfold::max_loc()});
            expect(all.first == (size == 1 ? 1e300 : size - 2), "an exact sum in a pair");
            expect(all.second == allfold::located(size - 1, size - 1), "a place in a pair");
        });
    SUCCEED();
}

TEST_CASE("a fused operator may be wrapped, and be a base class") {
    struct derived : max_and_sum {
        derived() : max_and_sum(max(), sum()) {}
    };
    CHECK_NOTHROW(on_ranks(2, [](auto& comm) {
        const int rank = comm.rank();
        std::vector<int> a(3, rank);
        std::vector<double> b(3, 2);
        allfold::exclusive_scan(comm, records(a, b), with_identity(fused{max(), sum()}, std::tuple(-7, -1.5)));
        expect(a[2] == (rank == 0 ? -7 : 0) && b[2] == (rank == 0 ? -1.5 : 2), "identity");

        const auto add = [](int x, int y) { return x + y; };
        const std::pair pair(rank, 2);
        expect(allfold::all_reduce(comm, pair, allfold::commutative(fused{add, add})) == std::pair(1, 4), "laws");
        expect(allfold::all_reduce(comm, pair, allfold::commutative_if(true, derived())) == std::pair(1, 4), "derived");
        std::pair<int, int> before(-1, -1);
        allfold::exclusive_scan(comm, pair, before, allfold::without_identity(fused{max(), sum()}));
        expect(before == (rank == 0 ? std::pair(-1, -1) : std::pair(0, 2)), "no identity");
    }));
}
