// SPDX-License-Identifier: BSL-1.0
#include "allfold/collective/inclusive_scan.hpp"

#include "test/collective/inclusive_scan_checks.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"
#include "test/support/groups.hpp"

using namespace test;

TEMPLATE_LIST_TEST_CASE("inclusive_scan gives every rank the fold up to its own operand", "", folded_algebras) {
    on_all_groups<TestType>(
        [](auto& comm, const auto& p, const auto& where) { check_inclusive_scan_with_all_algorithms(comm, p, where); });
    SUCCEED();
}

TEMPLATE_LIST_TEST_CASE("inclusive_scan takes any operator", "", number_algebras) {
    on_all_groups<TestType>([](auto& comm, const auto& p, const auto& where) { check_inclusive_scan(comm, p, where); });
    SUCCEED();
}

TEST_CASE("inclusive_scan keeps rank order where ranks share no memory") {
    on_remote_groups<matrices>(
        [](auto& comm, const auto& p, const auto& where) { check_inclusive_scan(comm, p, where); });
    SUCCEED();
}
