// SPDX-License-Identifier: BSL-1.0
#include "allfold/collective/reduce_scatter.hpp"

#include "allfold/data/partition.hpp"
#include "test/collective/reduce_scatter_checks.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"
#include "test/support/groups.hpp"
#include "test/support/problems.hpp"

using namespace test;

TEMPLATE_TEST_CASE("reduce_scatter gives every rank its block of the fold in rank order", "", words, matrices, floats) {
    on_all_groups<TestType>(
        [](auto& comm, const auto& p, const auto& where) { check_reduce_scatter_with_all_algorithms(comm, p, where); });
    SUCCEED();
}

TEMPLATE_TEST_CASE("reduce_scatter cuts evenly unless told otherwise, and takes any operator", "", integers, maxima,
                   residues) {
    on_all_groups<TestType>([](auto& comm, const auto& p, const auto& where) {
        check_reduce_scatter(comm, p, allfold::partition::even(p.size(), comm.size()), where);
    });
    SUCCEED();
}

TEMPLATE_TEST_CASE("reduce_scatter keeps rank order where ranks share no memory", "", matrices, floats) {
    on_remote_groups<TestType>([](auto& comm, const auto& p, const auto& where) {
        for (const auto& blocks : partitions_of(p.size(), comm.size()))
            check_reduce_scatter(comm, p, blocks, where, blocks);
    });
    SUCCEED();
}
