// SPDX-License-Identifier: BSL-1.0
#include "allfold/collective/all_reduce.hpp"

#include "allfold/schedule/compose.hpp"
#include "allfold/schedule/recursive_halving.hpp"
#include "allfold/schedule/ring.hpp"
#include "test/collective/all_reduce_checks.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"
#include "test/support/groups.hpp"
#include "test/support/problems.hpp"

using namespace test;

namespace {

struct halving_then_ring {
    static constexpr const char* name = "halving, then ring";
    using all_reduce = allfold::composed<allfold::recursive_halving::reduce_scatter, allfold::ring::all_gather>;
};

}  // namespace

TEMPLATE_LIST_TEST_CASE("all_reduce gives every rank the fold in rank order", "", folded_algebras) {
    on_all_groups<TestType>(
        [](auto& comm, const auto& p, const auto& where) { check_all_reduce_with_all_algorithms(comm, p, where); });
    SUCCEED();
}

TEMPLATE_LIST_TEST_CASE("all_reduce takes any operator", "", number_algebras) {
    on_all_groups<TestType>([](auto& comm, const auto& p, const auto& where) { check_all_reduce(comm, p, where); });
    SUCCEED();
}

TEMPLATE_TEST_CASE("all_reduce keeps rank order where ranks share no memory", "", matrices, floats) {
    on_remote_groups<TestType>([](auto& comm, const auto& p, const auto& where) { check_all_reduce(comm, p, where); });
    SUCCEED();
}

TEST_CASE("all_reduce runs a reduce_scatter and an all_gather that the caller has composed") {
    on_all_groups<matrices>([](auto& comm, const auto& p, const auto& where) {
        check_all_reduce(comm, p, where, halving_then_ring());
        check_all_reduce(comm, p, where + ", in windows", halving_then_ring(), narrow(p));
    });
    SUCCEED();
}
