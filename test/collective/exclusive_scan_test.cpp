// SPDX-License-Identifier: BSL-1.0
#include "allfold/collective/exclusive_scan.hpp"

#include <string>
#include <tuple>
#include <vector>

#include "allfold/data/records.hpp"
#include "test/collective/exclusive_scan_checks.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"
#include "test/support/groups.hpp"
#include "test/support/ranks.hpp"

using namespace test;

TEMPLATE_LIST_TEST_CASE("exclusive_scan gives every rank the fold of the operands below its own", "", folded_algebras) {
    on_all_groups<TestType>(
        [](auto& comm, const auto& p, const auto& where) { check_exclusive_scan_with_all_algorithms(comm, p, where); });
    SUCCEED();
}

TEMPLATE_LIST_TEST_CASE("exclusive_scan takes any operator", "", number_algebras) {
    on_all_groups<TestType>([](auto& comm, const auto& p, const auto& where) { check_exclusive_scan(comm, p, where); });
    SUCCEED();
}

TEST_CASE("exclusive_scan keeps rank order where ranks share no memory") {
    on_remote_groups<matrices>(
        [](auto& comm, const auto& p, const auto& where) { check_exclusive_scan(comm, p, where); });
    SUCCEED();
}

TEST_CASE("exclusive_scan leaves the first rank alone where the operator is not to have an identity") {
    on_ranks(3, [](auto& comm) {
        for (const std::size_t n : {1U, 100U, 60000U}) {
            std::vector<int> x(n, 5), out(n, -7);
            allfold::exclusive_scan(comm, x, out, allfold::without_identity(allfold::sum()));
            expect_equal(out, std::vector(n, comm.rank() == 0 ? -7 : 5 * comm.rank()), "out of place");
            allfold::exclusive_scan(comm, x, allfold::without_identity(allfold::sum()));
            expect_equal(x, std::vector(n, comm.rank() == 0 ? 5 : 5 * comm.rank()), "in place");
        }
        const auto named = allfold::without_identity(allfold::with_identity(allfold::sum(), 3));
        static_assert(!allfold::operator_with_identity<decltype(named), int>);
        static_assert(allfold::commutative_operator<decltype(named), int>);
    });
    SUCCEED();
}

TEST_CASE("exclusive_scan gives the first rank the identity that an operator was given") {
    on_ranks(3, [](auto& comm) {
        const auto join = allfold::associative([](const std::string& a, const std::string& b) { return a + b; });
        std::vector<std::string> words(2, std::string(1, static_cast<char>('a' + comm.rank())));
        allfold::exclusive_scan(comm, words, allfold::with_identity(join, ""));
        expect_equal(words, std::vector(2, std::string("ab").substr(0, static_cast<std::size_t>(comm.rank()))),
                     "words");

        struct of_rows {
            void operator()(allfold::row<const int, const float> a, allfold::row<const int, const float> b,
                            allfold::row<int, float> out) const {
                std::get<0>(out)[0] = std::get<0>(a)[0] + std::get<0>(b)[0];
                std::get<1>(out)[0] = std::get<1>(a)[0] * std::get<1>(b)[0];
            }
        };
        std::vector<int> sums(2, 1);
        std::vector<float> products(2, 2);
        allfold::records rows{sums, products};
        allfold::exclusive_scan(comm, rows, allfold::with_identity(allfold::associative(of_rows{}), std::tuple(0, 1)));
        expect_equal(sums, std::vector(2, comm.rank()), "sums");
        expect_equal(products, std::vector(2, static_cast<float>(1 << comm.rank())), "products");
    });
    SUCCEED();
}
