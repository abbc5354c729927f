// SPDX-License-Identifier: BSL-1.0
#include <string>

#include "test/collective/all_gather_checks.hpp"
#include "test/collective/all_to_all_checks.hpp"
#include "test/collective/barrier_checks.hpp"
#include "test/collective/broadcast_checks.hpp"
#include "test/collective/gather_checks.hpp"
#include "test/collective/permute_checks.hpp"
#include "test/collective/scatter_checks.hpp"
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

TEMPLATE_TEST_CASE("gather does between processes what it does between threads", "", words, matrices, floats) {
    on_the_job<TestType>(
        [](auto& comm, const auto& p, const auto& where) { check_gather_with_all_algorithms(comm, p, where); });
    SUCCEED();
}

TEMPLATE_TEST_CASE("scatter does between processes what it does between threads", "", words, matrices, floats) {
    on_the_job<TestType>(
        [](auto& comm, const auto& p, const auto& where) { check_scatter_with_all_algorithms(comm, p, where); });
    SUCCEED();
}

TEMPLATE_TEST_CASE("all_to_all does between processes what it does between threads", "", words, matrices, floats) {
    for (const auto& numbers : {allfold::mpi::tuning(), pinched}) {
        const watchdog watch("all_to_all of " + std::string(TestType::name));
        check_all_to_all_with_all_algorithms<TestType>(shared_communicator(numbers),
                                                       numbers == pinched ? "pinched" : "processes");
    }
    SUCCEED();
}

TEMPLATE_TEST_CASE("permute does between processes what it does between threads", "", words, matrices, floats) {
    for (const auto& numbers : {allfold::mpi::tuning(), pinched}) {
        const watchdog watch("permute of " + std::string(TestType::name));
        check_permute_with_all_algorithms<TestType>(shared_communicator(numbers),
                                                    numbers == pinched ? "pinched" : "processes");
    }
    SUCCEED();
}

TEST_CASE("barrier lets no process leave before all have come") {
    const watchdog watch("barrier");
    allfold::mpi::communicator comm(MPI_COMM_WORLD);
    check_barrier_with_all_algorithms(comm, "processes");
    SUCCEED();
}
