// SPDX-License-Identifier: BSL-1.0
#include "allfold/collective/broadcast.hpp"

#include "test/collective/broadcast_checks.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"
#include "test/support/groups.hpp"
#include "test/support/problems.hpp"

using namespace test;

TEMPLATE_TEST_CASE("broadcast gives every rank the operand of the root", "", words, matrices) {
    on_all_groups<TestType>(
        [](auto& comm, const auto& p, const auto& where) { check_broadcast_with_all_algorithms(comm, p, where); });
    SUCCEED();
}

TEST_CASE("broadcast works where ranks share no memory") {
    on_remote_groups<integers>([](auto& comm, const auto& p, const auto& where) {
        for (const int root : roots_of(comm.size(), p.size())) check_broadcast(comm, p, root, where);
    });
    SUCCEED();
}
