// SPDX-License-Identifier: BSL-1.0
#include "allfold/transport/self.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <numeric>
#include <string>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/standard_functors.hpp"
#include "allfold/collective.hpp"
#include "allfold/error.hpp"
#include "allfold/message.hpp"
#include "test/support/algebras.hpp"
#include "test/support/algorithms.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"

using namespace test;

TEMPLATE_TEST_CASE("all collectives of one rank leave it with its own operand", "", words, matrices, integers) {
    allfold::self comm;
    for (const std::size_t n : std::initializer_list<std::size_t>{0, 1, 100, 20000}) {
        const problem<TestType> p(1, n);
        const auto in = p.operand(0);
        const std::vector x(in.begin(), in.end());
        const std::vector blank(n, TestType::margin());
        auto y = blank, z = x;

        allfold::barrier(comm);
        allfold::all_reduce(comm, in, y, p.op);
        allfold::all_reduce(comm, z, p.op);
        CHECK((y == x && z == x));
        y = blank;
        allfold::reduce(comm, in, y, p.op);
        allfold::reduce(comm, z, p.op, allfold::root{0});
        CHECK((y == x && z == x));
        y = blank;
        allfold::reduce_scatter(comm, in, y, p.op);
        allfold::reduce_scatter(comm, z, p.op);
        CHECK((y == x && z == x));
        y = blank;
        allfold::all_gather(comm, in, y);
        allfold::all_gather(comm, z);
        CHECK((y == x && z == x));
        y = blank;
        allfold::gather(comm, in, y);
        allfold::gather(comm, z);
        CHECK((y == x && z == x));
        y = blank;
        allfold::scatter(comm, in, y);
        allfold::scatter(comm, z);
        CHECK((y == x && z == x));
        y = blank;
        allfold::all_to_all(comm, in, y);
        allfold::all_to_all(comm, z);
        CHECK((y == x && z == x));
        y = blank;
        allfold::permute(comm, in, y, allfold::shift{1});
        allfold::permute(comm, z, allfold::shift{1});
        CHECK((y == x && z == x));
        y = blank;
        allfold::broadcast(comm, in, y);
        allfold::broadcast(comm, z);
        CHECK((y == x && z == x));
        y = blank;
        allfold::inclusive_scan(comm, in, y, p.op);
        allfold::inclusive_scan(comm, z, p.op);
        CHECK((y == x && z == x));
    }
}

TEST_CASE("an exclusive scan of one rank gives the identity, or changes nothing where there is none") {
    allfold::self comm;
    std::vector x{1, 2, 3}, y{4, 5, 6};
    allfold::exclusive_scan(comm, x, y, allfold::sum());
    CHECK(y == std::vector{0, 0, 0});
    allfold::exclusive_scan(comm, x, allfold::associative([](int a, int b) { return a + b; }));
    CHECK(x == std::vector{1, 2, 3});
}

TEST_CASE("one rank needs no schedule: every algorithm works") {
    allfold::self comm;
    std::vector x{1, 2, 3}, y{0, 0, 0};
    for_each_algorithm(allfold::all_reduce, 1, [&](const char* name, auto... algorithm) {
        INFO(name);
        y = {0, 0, 0};
        allfold::all_reduce(comm, x, y, allfold::sum(), algorithm...);
        CHECK(y == x);
    });
}

TEST_CASE("one rank's faults are found") {
    allfold::self comm;
    std::vector x{1, 2, 3}, y{0, 0};
    CHECK_THROWS_AS(allfold::all_reduce(comm, x, y, allfold::sum()), allfold::error);
    CHECK_THROWS_AS(allfold::broadcast(comm, x, allfold::root{1}), allfold::error);
    CHECK_THROWS_AS(allfold::reduce_scatter(comm, x, allfold::sum(), allfold::partition::even(3, 2)), allfold::error);
    allfold::all_reduce(comm, x, allfold::sum());
}

TEST_CASE("one rank has nobody to talk to") {
    allfold::self comm;
    CHECK(comm.rank() == 0);
    CHECK(comm.size() == 1);
    CHECK_THROWS_WITH(comm.try_post(1, 0, {}), Catch::Matchers::ContainsSubstring("rank 0 of 1"));
    CHECK_THROWS_WITH(comm.try_receive(1, 0, [](auto&&) {}), Catch::Matchers::ContainsSubstring("rank 0 of 1"));
}

TEST_CASE("one rank waits for a message from itself until its deadline") {
    allfold::self comm;
    int x = 0;
    const auto told = test::outcome_of(
        [&] { allfold::receive(comm, x, allfold::from{0}, allfold::deadline{std::chrono::milliseconds(20)}); });
    INFO(told.text);
    CHECK(told.code == allfold::errc::timeout);
}
