// SPDX-License-Identifier: BSL-1.0
#include <string>

#include "test/collective/distributed_checks.hpp"
#include "test/collective/exclusive_scan_checks.hpp"
#include "test/collective/images_checks.hpp"
#include "test/collective/inclusive_scan_checks.hpp"
#include "test/mpi/support/job.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"
#include "test/support/watchdog.hpp"

using namespace test;

TEMPLATE_TEST_CASE("inclusive_scan does between processes what it does between threads", "", words, matrices, floats) {
    on_the_job<TestType>(
        [](auto& comm, const auto& p, const auto& where) { check_inclusive_scan_with_all_algorithms(comm, p, where); });
    SUCCEED();
}

TEMPLATE_TEST_CASE("exclusive_scan does between processes what it does between threads", "", words, matrices, floats) {
    on_the_job<TestType>(
        [](auto& comm, const auto& p, const auto& where) { check_exclusive_scan_with_all_algorithms(comm, p, where); });
    SUCCEED();
}

TEST_CASE("arrays and images are folded between processes as they are between threads") {
    const watchdog watch("arrays on " + std::to_string(ranks_of_job()) + " processes");
    auto& comm = shared_communicator({});
    check_arrays<matrices>(comm, {43, 600});
    check_images(comm, {7});
    SUCCEED();
}
