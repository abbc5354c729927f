// SPDX-License-Identifier: BSL-1.0
#include "allfold/collective/all_gather.hpp"

#include <string>

#include "allfold/data/partition.hpp"
#include "test/collective/all_gather_checks.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"
#include "test/support/groups.hpp"
#include "test/support/hierarchies.hpp"
#include "test/support/problems.hpp"

using namespace test;

TEMPLATE_TEST_CASE("all_gather gives every rank the blocks of all", "", words, matrices) {
    on_all_groups<TestType>(
        [](auto& comm, const auto& p, const auto& where) { check_all_gather_with_all_algorithms(comm, p, where); });
    SUCCEED();
}

TEST_CASE("all_gather cuts evenly unless told otherwise") {
    on_all_groups<integers>([](auto& comm, const auto& p, const auto& where) {
        check_all_gather(comm, p, allfold::partition::even(p.size(), comm.size()), where);
    });
    SUCCEED();
}

TEST_CASE("all_gather works where ranks share no memory") {
    on_remote_groups<integers>([](auto& comm, const auto& p, const auto& where) {
        for (const auto& blocks : partitions_of(p.size(), comm.size()))
            check_all_gather(comm, p, blocks, where, blocks);
    });
    SUCCEED();
}

TEST_CASE("all_gather gives every thread of every process the blocks of all") {
    on_hierarchies_of_few([](auto& comm, const std::string& where) {
        for (const auto& p : problems_for<words>(comm.size())) {
            const std::string here = where + ", n = " + std::to_string(p.size());
            check_all_gather_with_all_algorithms(comm, p, here);
        }
    });
    SUCCEED();
}
