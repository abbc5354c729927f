// SPDX-License-Identifier: BSL-1.0
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
