// SPDX-License-Identifier: BSL-1.0
#include <complex>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
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
