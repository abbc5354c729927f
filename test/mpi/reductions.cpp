// SPDX-License-Identifier: BSL-1.0
#include <array>
#include <cmath>
#include <complex>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/exact_sum.hpp"
#include "allfold/algebra/fused.hpp"
#include "allfold/algebra/location.hpp"
#include "allfold/algebra/mean.hpp"
#include "allfold/algebra/moments.hpp"
#include "allfold/algebra/top_k.hpp"
#include "allfold/algebra/widened.hpp"
#include "test/collective/all_reduce_checks.hpp"
#include "test/collective/reduce_checks.hpp"
#include "test/collective/reduce_scatter_checks.hpp"
#include "test/mpi/support/job.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"

using namespace test;

TEMPLATE_TEST_CASE("all_reduce does between processes what it does between threads", "", words, matrices, floats) {
    on_the_job<TestType>(
        [](auto& comm, const auto& p, const auto& where) { check_all_reduce_with_all_algorithms(comm, p, where); });
    SUCCEED();
}

TEST_CASE("all_reduce adds numbers that MPI has no type for") {
    auto& comm = shared_communicator({});
    const auto check_sum_of = [&]<class T>(T one) {
        const std::vector<T> expected(100, static_cast<T>(static_cast<float>(comm.size())));
        std::vector<T> x(100, one);
        allfold::all_reduce(comm, x, allfold::sum{});
        expect(x == expected, allfold::detail::type_name<T>);
    };
    check_sum_of(std::complex<double>(1));
#ifdef __SIZEOF_INT128__
    check_sum_of(allfold::detail::int128{1});
#endif
#ifdef __FLT16_MAX__
    check_sum_of(static_cast<_Float16>(1));
#endif
    SUCCEED();
}

namespace {

/// What the ranks' elements are when folded one after the other, with values made by make(rank, index).
template <class Op, class Make>
auto folded_in_turn(const Op& op, int ranks, Make make) {
    std::vector<decltype(make(0, 0))> all;
    for (int i = 0; i < 7; ++i) {
        auto one = make(0, i);
        for (int r = 1; r < ranks; ++r) one = op(one, make(r, i));
        all.push_back(one);
    }
    return all;
}

template <class Op, class Make>
void check_operator(const Op& op, Make make) {
    for (const auto& numbers : {allfold::mpi::tuning(), pinched}) {
        auto& comm = shared_communicator(numbers);
        std::vector<decltype(make(0, 0))> x;
        for (int i = 0; i < 7; ++i) x.push_back(make(comm.rank(), i));
        allfold::all_reduce(comm, x, op);
        expect(x == folded_in_turn(op, comm.size(), make), allfold::detail::type_name<Op>);
    }
}

}  // namespace

TEST_CASE("the operators of allfold fold between processes as one after the other") {
    using allfold::located;
    const auto value = [](int rank, int i) { return static_cast<float>((rank * 37 + i * 11) % 17 - 8); };
    check_operator(allfold::exact_sum<double>(), [](int rank, int i) {
        return allfold::exact_accumulator<double>(rank % 2 == 0 ? 1e300 + i : 1e-300 * i);
    });
    check_operator(allfold::top_k<float, 3>(),
                   [&](int rank, int i) { return allfold::top_k<float, 3>::lift({value(rank, i), rank}); });
    check_operator(allfold::max_loc(), [&](int rank, int i) { return located<float>{value(rank, i), rank}; });
    check_operator(allfold::fused{allfold::max(), allfold::sum()},
                   [&](int rank, int i) { return std::array{rank * 7 % 5, rank + i}; });
    SUCCEED();
}

TEST_CASE("narrow numbers are folded between processes in a wider type, and are rounded once") {
    auto& comm = shared_communicator({});
    std::vector<short> x(100, 30000);
    allfold::all_reduce(comm, x, allfold::widened<allfold::mean, double>());
    expect(x == std::vector<short>(100, 30000), "the mean of numbers whose sum is too great");
    std::vector<double> numbers(10, comm.rank()), variances(10);
    allfold::all_reduce(comm, numbers, variances, allfold::variance());
    const double n = comm.size();
    for (const double each : variances)
        expect(std::abs(each - (n * n - 1) / 12) < 1e-9, "variance of 0, 1, ..., n - 1");
    SUCCEED();
}

TEMPLATE_TEST_CASE("reduce does between processes what it does between threads", "", words, matrices, floats) {
    on_the_job<TestType>(
        [](auto& comm, const auto& p, const auto& where) { check_reduce_with_all_algorithms(comm, p, where); });
    SUCCEED();
}

TEMPLATE_TEST_CASE("reduce_scatter does between processes what it does between threads", "", words, matrices, floats) {
    on_the_job<TestType>(
        [](auto& comm, const auto& p, const auto& where) { check_reduce_scatter_with_all_algorithms(comm, p, where); });
    SUCCEED();
}
