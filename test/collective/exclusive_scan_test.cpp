// SPDX-License-Identifier: BSL-1.0
#include "allfold/collective/exclusive_scan.hpp"

#include "test/collective/exclusive_scan_checks.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"
#include "test/support/groups.hpp"

using namespace test;

TEMPLATE_TEST_CASE("exclusive_scan gives every rank the fold of the operands below its own", "", words, matrices,
                   floats) {
    on_all_groups<TestType>(
        [](auto& comm, const auto& p, const auto& where) { check_exclusive_scan_with_all_algorithms(comm, p, where); });
    SUCCEED();
}

TEMPLATE_TEST_CASE("exclusive_scan takes any operator", "", integers, maxima, residues) {
    on_all_groups<TestType>([](auto& comm, const auto& p, const auto& where) { check_exclusive_scan(comm, p, where); });
    SUCCEED();
}

TEST_CASE("exclusive_scan keeps rank order where ranks share no memory") {
    on_remote_groups<matrices>(
        [](auto& comm, const auto& p, const auto& where) { check_exclusive_scan(comm, p, where); });
    SUCCEED();
}
