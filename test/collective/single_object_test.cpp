// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective.hpp"
#include "allfold/schedule/recursive_doubling.hpp"
#include "allfold/transport/self.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"

using namespace test;
using allfold::sum;

namespace {

const auto join = allfold::associative([](const std::string& a, const std::string& b) { return a + b; });

std::string word_of(int rank) { return {static_cast<char>('a' + rank)}; }
std::string words_below(int end) {
    std::string all;
    for (int rank = 0; rank < end; ++rank) all += word_of(rank);
    return all;
}

template <class Run>
void on_some_ranks(Run run) {
    for (const int size : {1, 2, 5}) on_ranks(size, run);
    allfold::self alone;
    run(alone);
}

}  // namespace

TEST_CASE("a collective in place returns the single object that it has written") {
    on_some_ranks([](auto& comm) {
        const int rank = comm.rank(), size = comm.size();
        double mine = 1;
        const double total = allfold::all_reduce(comm, mine, sum{});
        expect(total == size && mine == size, "all_reduce");

        std::string word = word_of(rank);
        const std::string& prefix = allfold::inclusive_scan(comm, word, join);
        expect(&prefix == &word && word == words_below(rank + 1), "inclusive_scan");

        int above = 1;
        expect(allfold::exclusive_scan(comm, above, sum{}) == rank, "exclusive_scan");
        int least = rank + 7;
        expect(
            allfold::reduce(comm, least, allfold::min{}, allfold::root{size - 1}) == (rank == size - 1 ? 7 : rank + 7),
            "reduce");
        std::string said = word_of(rank);
        expect(allfold::broadcast(comm, said) == "a" && said == "a", "broadcast");
        allfold::all_reduce(comm, mine, sum{}, allfold::recursive_doubling{});  // the returned reference may be ignored
        expect(mine == size * size, "all_reduce once more");
    });
    SUCCEED();
}

TEST_CASE("a collective given a value returns the result, and leaves the value alone") {
    on_some_ranks([](auto& comm) {
        const int rank = comm.rank(), size = comm.size();
        const double mine = 1;
        const double total = allfold::all_reduce(comm, mine, sum{}, allfold::order::tree);
        expect(total == size && mine == 1, "all_reduce of a constant");
        int other = rank;
        expect(allfold::all_reduce(comm, std::as_const(other), allfold::max{}) == size - 1 && other == rank,
               "as_const");
        expect(allfold::inclusive_scan(comm, word_of(rank), join) == words_below(rank + 1), "inclusive_scan");
        expect(allfold::exclusive_scan(comm, word_of(rank), allfold::with_identity(join, "")) == words_below(rank),
               "exclusive_scan");
        expect(allfold::broadcast(comm, 10 * rank, allfold::root{size - 1}) == 10 * (size - 1), "broadcast");
        expect(allfold::reduce(comm, 2, sum{}) == (rank == 0 ? 2 * size : 2),
               "reduce, which others get back as it was");
    });
    SUCCEED();
}

TEST_CASE("ranges, and collectives that cut into blocks, return nothing") {
    using comm = allfold::self&;
    using list = std::vector<float>&;
    STATIC_REQUIRE(std::is_void_v<decltype(allfold::all_reduce(std::declval<comm>(), std::declval<list>(), sum{}))>);
    STATIC_REQUIRE(std::is_void_v<decltype(allfold::broadcast(std::declval<comm>(), std::declval<list>()))>);
    STATIC_REQUIRE(std::is_void_v<decltype(allfold::all_gather(std::declval<comm>(), std::declval<float&>()))>);
    STATIC_REQUIRE(
        std::same_as<const float&, decltype(allfold::broadcast(std::declval<comm>(), std::declval<float&>()))>);
    STATIC_REQUIRE(
        std::same_as<float, decltype(allfold::broadcast(std::declval<comm>(), std::declval<const float&>()))>);
}

namespace {

/// An element, although it has a name, as algorithms have.
struct body {
    static constexpr const char* name = "body";
    int mass = 0;
};

}  // namespace

TEST_CASE("an element whose type has a name is no algorithm") {
    on_some_ranks([](auto& comm) {
        const auto ranks = static_cast<std::size_t>(comm.size());
        body own{comm.rank()};
        std::vector<body> all(ranks);
        allfold::broadcast(comm, own);
        expect(own.mass == 0, "broadcast");
        if (comm.rank() == 0)
            for (std::size_t r = 0; r < ranks; ++r) all[r].mass = static_cast<int>(r);
        allfold::scatter(comm, all, own);
        expect(own.mass == comm.rank(), "scatter");
        allfold::permute(comm, own, allfold::shift{1});
        expect(own.mass == (comm.rank() + comm.size() - 1) % comm.size(), "permute");
    });
    SUCCEED();
}

TEST_CASE("a whole vector is one element in a span of one") {
    on_some_ranks([](auto& comm) {
        const auto merge = allfold::commutative([](const std::vector<int>& a, const std::vector<int>& b) {
            std::vector<int> both;
            std::ranges::merge(a, b, std::back_inserter(both));
            return both;
        });
        std::vector<int> sorted(static_cast<std::size_t>(comm.rank() + 1), comm.rank());
        allfold::all_reduce(comm, std::span(&sorted, 1), merge);
        std::vector<int> expected;
        for (int rank = 0; rank < comm.size(); ++rank)
            expected.insert(expected.end(), static_cast<std::size_t>(rank + 1), rank);
        expect_equal(sorted, expected, "merged lists");
    });
    SUCCEED();
}
