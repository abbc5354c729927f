// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/mean.hpp"
#include "allfold/collective.hpp"
#include "allfold/data/records.hpp"
#include "allfold/data/tensor_view.hpp"
#include "allfold/schedule/all_read.hpp"
#include "allfold/schedule/recursive_doubling.hpp"
#include "allfold/schedule/ring.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/sanitized.hpp"

using namespace test;
using allfold::mean;
using allfold::records;
using allfold::sum;
using allfold::tensor;

namespace {

constexpr allfold::law_set commutes = allfold::law::associative | allfold::law::commutative;

/// States have the same type as values, but mean something else.
struct sum_of_squares {
    static constexpr auto laws = commutes;
    double operator()(double a, double b) const { return a + b; }
    static double lift(double x) { return x * x; }
};

struct root_mean_square : sum_of_squares {
    static double lower(double sum, int contributions) { return std::sqrt(sum / contributions); }
};

/// Lifts and lowers rows: (x, y[D]) are folded as (x², 2·y[D]), and become (√x², y[D] + contributions).
struct norm_of_rows {
    static constexpr auto laws = commutes;
    using values = allfold::row<const double, const float>;
    using room = allfold::row<double, float>;
    void operator()(values a, values b, room out) const {
        std::get<0>(out)[0] = std::get<0>(a)[0] + std::get<0>(b)[0];
        for (std::size_t i = 0; i < std::get<1>(out).size(); ++i)
            std::get<1>(out)[i] = std::get<1>(a)[i] + std::get<1>(b)[i];
    }
    static void lift(values value, room state) {
        std::get<0>(state)[0] = std::get<0>(value)[0] * std::get<0>(value)[0];
        for (std::size_t i = 0; i < std::get<1>(state).size(); ++i) std::get<1>(state)[i] = 2 * std::get<1>(value)[i];
    }
    static void lower(values state, int contributions, room out) {
        std::get<0>(out)[0] = std::sqrt(std::get<0>(state)[0]);
        for (std::size_t i = 0; i < std::get<1>(out).size(); ++i)
            std::get<1>(out)[i] = std::get<1>(state)[i] + static_cast<float>(contributions);
    }
};

#ifdef ALLFOLD_TEST_SANITIZED
constexpr int group_sizes_here[] = {1, 3};
#else
constexpr int group_sizes_here[] = {1, 2, 3, 4};
#endif
/// Short enough for a cell, short enough for a slot, and long enough to be lent and folded in one pass.
constexpr std::size_t lengths[] = {1, 700, fewer_if_sanitized(100000U, 20000U)};

template <class Range>
void expect_all(const Range& got, double value, const char* where) {
    expect(std::ranges::all_of(got, [&](const auto& x) { return std::abs(static_cast<double>(x) - value) < 1e-6; }),
           where);
}
template <class T>
std::vector<T> filled(std::size_t n, int value) {
    return std::vector<T>(n, static_cast<T>(value));
}

}  // namespace

TEST_CASE("the mean of records is a mean, in place, out of place and in windows") {
    for (const int size : group_sizes_here)
        for (const std::size_t n : lengths)
            on_ranks(size, [&](auto& comm) {
                const auto check = [&](auto... options) {
                    std::vector<float> a = filled<float>(n, comm.rank()), c(n);
                    std::vector<double> b = filled<double>(2 * n, 10 * comm.rank()), d(2 * n);
                    const auto in = [&] { return records(a, tensor<double, 2>(b.data(), {n, 2})); };
                    const auto out = [&] { return records(c, tensor<double, 2>(d.data(), {n, 2})); };
                    allfold::all_reduce(comm, in(), out(), mean(), options...);
                    expect_all(c, (size - 1) / 2.0, "floats");
                    expect_all(d, 10 * (size - 1) / 2.0, "doubles");
                    allfold::all_reduce(comm, in(), mean(), options...);
                    expect(a == c && b == d, "in place");
                };
                check();
                check(allfold::recursive_doubling());
                check(allfold::ring(), allfold::window{1000});
            });
    SUCCEED();
}

TEST_CASE("the mean of records in every collective that folds") {
    on_ranks(4, [](auto& comm) {
        const int r = comm.rank();
        std::vector<float> a(4, static_cast<float>(r)), c(4), part(1);
        std::vector<double> b(4, 10.0 * r), d(4), other_part(1);
        const auto expect_means = [&](double of_ranks, const char* where) {
            expect_all(c, of_ranks, where);
            expect_all(d, 10 * of_ranks, where);
        };
        allfold::inclusive_scan(comm, records(a, b), records(c, d), mean());
        expect_means(r / 2.0, "inclusive_scan");
        allfold::exclusive_scan(comm, records(a, b), records(c, d), mean());
        if (r > 0) expect_means((r - 1) / 2.0, "exclusive_scan");
        expect(r > 0 || (std::isnan(c[3]) && std::isnan(d[0])), "the mean of nothing");
        allfold::reduce_scatter(comm, records(a, b), records(part, other_part), mean());
        expect(part[0] == 1.5F && other_part[0] == 15, "reduce_scatter");
        allfold::reduce(comm, records(a, b), records(c, d), mean(), allfold::root{2});
        if (r == 2) expect_means(1.5, "reduce");
        auto prepared = allfold::all_reduce.prepare(comm, records(a, b), records(c, d), mean());
        for (int turn = 0; turn < 3; ++turn) {
            prepared();
            expect_means(1.5, "prepared");
        }
    });
    SUCCEED();
}

TEST_CASE("records of one matrix are folded and lowered as a whole") {
    on_ranks(3, [](auto& comm) {
        std::vector<double> x(12, comm.rank());
        allfold::all_reduce(comm, records(tensor<double, 2>(x.data(), {4, 3})), mean());
        expect_all(x, 1.0, "wrong mean");
        std::vector<int> y(12, 1);
        allfold::exclusive_scan(comm, records(tensor<int, 2>(y.data(), {4, 3})), sum());
        expect_all(y, comm.rank(), "wrong sums");
    });
    SUCCEED();
}

TEST_CASE("a lift to the same type is made: the squares of 1, 2 and 3 add up to 14") {
    for (const std::size_t n : lengths)
        on_ranks(3, [&](auto& comm) {
            const auto check = [&](auto... options) {
                std::vector<double> in(n, comm.rank() + 1), out(n);
                allfold::all_reduce(comm, in, out, sum_of_squares(), options...);
                expect_all(out, 14, "out of place");
                std::vector<double> x = in;
                allfold::all_reduce(comm, x, sum_of_squares(), options...);
                expect_all(x, 14, "in place");
            };
            check();
            check(allfold::recursive_doubling());
        });
    SUCCEED();
}

TEST_CASE("what is lifted and lowered to the same type is so once, also where a long fold is made in one pass") {
    for (const int size : group_sizes_here)
        for (const std::size_t n : lengths)
            on_ranks(size, [&](auto& comm) {
                std::vector<double> in(n, 3), out(n), x = in;
                allfold::all_reduce(comm, in, out, root_mean_square());
                expect_all(out, 3, "out of place");
                allfold::all_reduce(comm, x, root_mean_square());
                expect_all(x, 3, "in place");
                auto op = allfold::all_reduce.start(comm, in, out, root_mean_square());
                op.wait();
                expect_all(out, 3, "started");
                std::vector<double> a = in, b = in;
                allfold::all_reduce(comm, records(a, b), root_mean_square());
                expect(a == x && b == x, "records");
            });
    SUCCEED();
}

TEST_CASE("states of another size than the values in the output are folded in memory of their own, unlifted too") {
    for (const int size : group_sizes_here)
        for (const std::size_t n : lengths)
            on_ranks(size, [&](auto& comm) {
                const auto check = [&](auto... options) {
                    std::vector<float> in = filled<float>(n, comm.rank());
                    std::vector<double> out(n);
                    allfold::all_reduce(comm, in, out, mean(), options...);
                    expect_all(out, (size - 1) / 2.0, "wider values");
                    const std::vector<double> wide(in.begin(), in.end());
                    std::vector<float> guarded = filled<float>(n + 2, -1);
                    allfold::all_reduce(comm, wide, std::span(guarded).subspan(1, n), mean(), options...);
                    expect(guarded.front() == -1 && guarded.back() == -1, "written beyond the output");
                    expect_all(std::span(guarded).subspan(1, n), (size - 1) / 2.0, "shorter values");
                    allfold::all_reduce(comm, records(in, wide), records(out, std::span(guarded).first(n)), mean(),
                                        options...);
                    expect_all(out, (size - 1) / 2.0, "records");
                };
                check();
                check(allfold::recursive_doubling());
            });
    SUCCEED();
}

TEST_CASE("a scan gives a lifted fold of nothing the identity, or leaves it as it was") {
    on_ranks(3, [](auto& comm) {
        std::vector<double> x(5, comm.rank() + 1);
        allfold::exclusive_scan(comm, x, sum_of_squares());
        expect_all(x, comm.rank() == 0 ? 1 : comm.rank() == 1 ? 1 : 5, "wrong sum");
    });
    SUCCEED();
}

TEST_CASE("the first rank of an exclusive scan of records gets the identity") {
    for (const std::size_t n : lengths)
        on_ranks(3, [&](auto& comm) {
            std::vector<int> a(n, 1), c(n, -1);
            std::vector<float> b(2 * n, 2), d(2 * n, -1);
            const auto in = records(a, tensor<float, 2>(b.data(), {n, 2}));
            allfold::exclusive_scan(comm, in, records(c, tensor<float, 2>(d.data(), {n, 2})), sum());
            expect_all(c, comm.rank(), "out of place");
            expect_all(d, 2 * comm.rank(), "out of place, second tensor");
            allfold::exclusive_scan(comm, in, sum());
            expect(a == c && b == d, "in place");
        });
    SUCCEED();
}

TEST_CASE("an operator of rows lifts and lowers rows") {
    for (const int size : group_sizes_here)
        for (const std::size_t n : lengths)
            on_ranks(size, [&](auto& comm) {
                const auto check = [&](auto... options) {
                    std::vector<double> a(n, 2), c(n);
                    std::vector<float> b(3 * n, 1), d(3 * n);
                    const auto of = [n](auto& x, auto& y) { return records(x, tensor<float, 2>(y.data(), {n, 3})); };
                    allfold::all_reduce(comm, of(a, b), of(c, d), norm_of_rows(), options...);
                    expect_all(c, 2 * std::sqrt(size), "first tensor");
                    expect_all(d, 2 * size + size, "second tensor");
                    expect_all(a, 2, "the input has been written");
                    allfold::all_reduce(comm, of(a, b), norm_of_rows(), options...);
                    expect(a == c && b == d, "in place");
                };
                check();
                check(allfold::recursive_doubling());
                std::vector<double> a(n, 2), c(n, -1);
                std::vector<float> b(n, 1), d(n, -1);
                allfold::reduce(comm, records(a, b), records(c, d), norm_of_rows(), allfold::root{size - 1});
                const bool is_root = comm.rank() == size - 1;
                expect_all(c, is_root ? 2 * std::sqrt(size) : -1, "reduce, first tensor");
                expect_all(d, is_root ? 3 * size : -1, "reduce, second tensor");
            });
    SUCCEED();
}

TEST_CASE("records that share one of their tensors with the output are folded as if it were their own") {
    for (const int size : group_sizes_here)
        for (const std::size_t n : lengths)
            on_ranks(size, [&](auto& comm) {
                const auto check = [&](auto... options) {
                    std::vector<double> a(n, comm.rank()), b(n, 1), c(n);
                    allfold::all_reduce(comm, records(a, b), records(c, b), sum(), options...);
                    expect_all(c, size * (size - 1) / 2, "apart");
                    expect_all(b, size, "shared");
                    expect_all(a, comm.rank(), "the input has been written");
                    std::ranges::fill(b, 1);
                    allfold::inclusive_scan(comm, records(b, a), records(b, c), sum());
                    expect_all(b, comm.rank() + 1, "shared scan");
                };
                check();
                check(allfold::recursive_doubling());
                check(allfold::all_read());
            });
    SUCCEED();
}

namespace {

struct celsius {
    explicit celsius(float d) : degrees(d) {}
    float degrees;
};
struct warmest {
    static constexpr allfold::law_set laws = allfold::law::associative | allfold::law::commutative;
    double operator()(double a, double b) const { return std::max(a, b); }
    [[nodiscard]] double lift(const celsius& x) const { return static_cast<double>(x.degrees) + 273.0; }
    [[nodiscard]] celsius lower(double x, int) const { return celsius(static_cast<float>(x - 273.0)); }
};

}  // namespace

TEST_CASE("values that are made of something only are lifted, and lowered") {
    on_ranks(3, [](auto& comm) {
        for (const std::size_t n : {std::size_t{1}, std::size_t{5000}}) {
            std::vector<celsius> x(n, celsius(static_cast<float>(comm.rank())));
            allfold::all_reduce(comm, x, warmest());
            expect(x.front().degrees == 2 && x.back().degrees == 2, "the warmest");
        }
    });
    SUCCEED();
}

namespace {

struct large_state {
    std::array<double, 1 << 13> sums;
};
struct sum_of_many {
    static constexpr allfold::law_set laws = allfold::law::associative | allfold::law::commutative;
    large_state operator()(const large_state& a, const large_state&) const { return a; }
    [[nodiscard]] large_state lift(int x) const {
        large_state made{};
        made.sums[0] = x;
        return made;
    }
    [[nodiscard]] int lower(const large_state& x, int) const { return static_cast<int>(x.sums[0]); }
};

}  // namespace

TEST_CASE("large states of short values do not lie on the stack") {
    on_ranks(3, [](auto& comm) {
        std::vector<int> x(2, 7);
        allfold::all_reduce(comm, x, sum_of_many());
        expect(x == std::vector(2, 7), "wrong");
    });
    CHECK(sizeof(allfold::detail::fold_of_values<sum_of_many, int>) < sizeof(large_state));
}
