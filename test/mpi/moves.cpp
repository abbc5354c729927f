// SPDX-License-Identifier: BSL-1.0
#include "test/collective/all_gather_checks.hpp"
#include "test/collective/barrier_checks.hpp"
#include "test/collective/broadcast_checks.hpp"
#include "test/mpi/support/job.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"

using namespace test;

TEMPLATE_TEST_CASE("broadcast does between processes what it does between threads", "", words, matrices, floats) {
    on_the_job<TestType>(
        [](auto& comm, const auto& p, const auto& where) { check_broadcast_with_all_algorithms(comm, p, where); });
    SUCCEED();
}

TEMPLATE_TEST_CASE("all_gather does between processes what it does between threads", "", words, matrices, floats) {
    on_the_job<TestType>(
        [](auto& comm, const auto& p, const auto& where) { check_all_gather_with_all_algorithms(comm, p, where); });
    SUCCEED();
}

TEST_CASE("barrier lets no process leave before all have come") {
    const watchdog watch("barrier");
    allfold::mpi::communicator comm(MPI_COMM_WORLD);
    check_barrier_with_all_algorithms(comm, "processes");
    SUCCEED();
}
