// SPDX-License-Identifier: BSL-1.0
#include "allfold/collective/reduce.hpp"

#include "test/collective/reduce_checks.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"
#include "test/support/groups.hpp"
#include "test/support/problems.hpp"

using namespace test;

TEMPLATE_LIST_TEST_CASE("reduce gives the root the fold in rank order", "", folded_algebras) {
    on_all_groups<TestType>(
        [](auto& comm, const auto& p, const auto& where) { check_reduce_with_all_algorithms(comm, p, where); });
    SUCCEED();
}

TEMPLATE_LIST_TEST_CASE("reduce takes any operator", "", number_algebras) {
    on_all_groups<TestType>([](auto& comm, const auto& p, const auto& where) { check_reduce(comm, p, 0, where); });
    SUCCEED();
}

TEMPLATE_TEST_CASE("reduce keeps rank order where ranks share no memory", "", matrices, floats) {
    on_remote_groups<TestType>([](auto& comm, const auto& p, const auto& where) {
        for (const int root : roots_of(comm.size(), p.size())) check_reduce(comm, p, root, where);
    });
    SUCCEED();
}
