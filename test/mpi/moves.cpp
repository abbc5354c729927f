// SPDX-License-Identifier: BSL-1.0
#include <cstddef>
#include <string>
#include <vector>

#include "test/collective/all_gather_checks.hpp"
#include "test/collective/all_to_all_checks.hpp"
#include "test/collective/arrangement_checks.hpp"
#include "test/collective/barrier_checks.hpp"
#include "test/collective/broadcast_checks.hpp"
#include "test/collective/distant_checks.hpp"
#include "test/collective/gather_checks.hpp"
#include "test/collective/permute_checks.hpp"
#include "test/collective/scatter_checks.hpp"
#include "test/mpi/support/job.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"

using namespace test;

// Words are serialised, floats are bytes for which MPI has a type. (Of matrices, only a fold sees more than bytes.)

TEMPLATE_TEST_CASE("broadcast does between processes what it does between threads", "", words, floats) {
    on_the_job<TestType>(
        [](auto& comm, const auto& p, const auto& where) { check_broadcast_with_all_algorithms(comm, p, where); });
    SUCCEED();
}

TEMPLATE_TEST_CASE("all_gather does between processes what it does between threads", "", words, floats) {
    on_the_job<TestType>(
        [](auto& comm, const auto& p, const auto& where) { check_all_gather_with_all_algorithms(comm, p, where); });
    SUCCEED();
}

TEMPLATE_TEST_CASE("gather does between processes what it does between threads", "", words, floats) {
    on_the_job<TestType>(
        [](auto& comm, const auto& p, const auto& where) { check_gather_with_all_algorithms(comm, p, where); });
    SUCCEED();
}

TEMPLATE_TEST_CASE("scatter does between processes what it does between threads", "", words, floats) {
    on_the_job<TestType>(
        [](auto& comm, const auto& p, const auto& where) { check_scatter_with_all_algorithms(comm, p, where); });
    SUCCEED();
}

TEMPLATE_TEST_CASE("all_to_all does between processes what it does between threads", "", words, floats) {
    on_groups_in_turn<TestType>(
        [](auto& comm, const char* where) { check_all_to_all_with_all_algorithms<TestType>(comm, where); });
    SUCCEED();
}

TEMPLATE_TEST_CASE("permute does between processes what it does between threads", "", words, floats) {
    on_groups_in_turn<TestType>(
        [](auto& comm, const char* where) { check_permute_with_all_algorithms<TestType>(comm, where); });
    SUCCEED();
}

TEST_CASE("lists, axes and shards do between processes what they do between threads") {
    on_groups_in_turn<words>([](auto& comm, const char* where) { check_arrangements<words>(comm, where); });
    SUCCEED();
}

TEST_CASE("MPI's own collectives get tensors with gaps as copies") {
    const watchdog watch("gaps");
    auto& comm = shared_communicator({});
    std::vector<float> x(4 * 105, static_cast<float>(comm.rank()));
    const allfold::tensor<float, 2> view(x.data(), {4, 100}, {105, 1});
    allfold::all_reduce(comm, view, allfold::sum(), allfold::delegate::always);
    const auto sum = static_cast<float>(comm.size() * (comm.size() - 1) / 2);
    for (std::size_t i = 0; i < x.size(); ++i)
        expect(x[i] == (i % 105 < 100 ? sum : static_cast<float>(comm.rank())), "all_reduce");
    SUCCEED();
}

TEST_CASE("blocks lie gigabytes apart in the memory of processes") {
    const watchdog watch("distant blocks");
    check_distant_blocks(shared_communicator({}), "processes");
    SUCCEED();
}

TEST_CASE("barrier lets no process leave before all have entered") {
    const watchdog watch("barrier");
    on_groups_of_the_job([](auto& comm, bool is_pinched) {
        if (!is_pinched) check_barrier_with_all_algorithms(comm, "processes");
    });
    SUCCEED();
}
