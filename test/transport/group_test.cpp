// SPDX-License-Identifier: BSL-1.0
#include "allfold/transport/group.hpp"

#include <array>
#include <random>
#include <set>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/subset.hpp"
#include "allfold/error.hpp"
#include "allfold/transport/thread.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"

/// @file
/// Groups of ranks.

using namespace test;
using allfold::group;
using allfold::likeness;
using allfold::rank_list;
using allfold::rank_range;

namespace {

std::vector<int> ranks_of(const group& g) {
    std::vector<int> all;
    for (int i = 0; i < g.size(); ++i) all.push_back(g.ranks()[i]);
    return all;
}

using ranks = std::vector<int>;

}  // namespace

TEST_CASE("groups have sizes and ranks, are translated, compared and combined") {
    on_ranks(6, [](allfold::thread_communicator& comm) {
        const group all = group::of(comm), none;
        expect(all.size() == 6 && all.rank() == comm.rank() && none.empty() && none.rank() == -1, "all and none");
        const group a = all.include({4, 0, 2}), b = all.include({2, 4, 5}), c = all.include({0, 2, 4});
        expect(ranks_of(a) == ranks{4, 0, 2} && a.rank() == (comm.rank() == 4   ? 0
                                                             : comm.rank() == 0 ? 1
                                                             : comm.rank() == 2 ? 2
                                                                                : -1),
               "included");
        expect(ranks_of(a | b) == ranks{4, 0, 2, 5} && ranks_of(b | a) == ranks{2, 4, 5, 0}, "union");
        expect(ranks_of(a & b) == ranks{4, 2} && ranks_of(b & a) == ranks{2, 4}, "intersection");
        expect(ranks_of(a - b) == ranks{0} && ranks_of(b - a) == ranks{5} && (a - a).empty(), "difference");
        expect(a.compare(a) == likeness::identical && a.compare(c) == likeness::similar &&
                   a.compare(b) == likeness::unequal && a == all.include({4, 0, 2}) && !(a == c),
               "compared");
        expect(a.translate(0, b) == 1 && a.translate(1, b) == -1 &&
                   a.translate(std::array{0, 1, 2}, all) == ranks{4, 0, 2},
               "translated");
        // Numbers are ranks in the group, not in the communicator.
        expect(ranks_of(a.include({2, 0})) == ranks{2, 4} && ranks_of(a.exclude({1})) == ranks{4, 2}, "of a group");
        expect(ranks_of(all.include({rank_range{1, 5, 2}, rank_range{4, 0, -4}})) == ranks{1, 3, 5, 4, 0}, "ranges");
        expect(ranks_of(all.exclude({rank_range{0, 4, 2}, rank_range{5, 5}})) == ranks{1, 3}, "all but ranges");
        expect(ranks_of(all.include({rank_range{0, 4, 3}})) == ranks{0, 3}, "not to the last one");

        const auto code_of = [](auto body) {
            try {
                body();
            } catch (const allfold::error& e) {
                return static_cast<int>(e.code());
            }
            return -1;
        };
        constexpr int bad_rank = static_cast<int>(allfold::errc::bad_rank);
        expect(code_of([&] { static_cast<void>(all.include({6})); }) == bad_rank, "no such number");
        expect(code_of([&] { static_cast<void>(a.exclude({3})); }) == bad_rank, "no such number in it");
        expect(code_of([&] { static_cast<void>(all.include({1, 1})); }) == bad_rank, "twice");
        expect(code_of([&] { static_cast<void>(all.include({rank_range{0, 2}, rank_range{2, 3}})); }) == bad_rank,
               "in two ranges");
        expect(code_of([&] { static_cast<void>(a.translate(3, b)); }) == bad_rank, "not in it");
        expect(code_of([&] { static_cast<void>(all.include({rank_range{0, 3, -1}})); }) ==
                   static_cast<int>(allfold::errc::bad_argument),
               "a stride that leads away");

        const auto team = subset(comm, a);
        expect(static_cast<bool>(team) == (a.rank() >= 0), "a member");
        if (!team) return;
        expect(team->rank() == a.rank() && group::of(comm, team) == a, "of a team");
        int sum = comm.rank();
        allfold::all_reduce(*team, sum, allfold::sum());
        expect(sum == 6, "its sum");
    });
    SUCCEED();
}

TEST_CASE("a union has this rank's number whichever group knows it") {
    on_ranks(3, [](allfold::thread_communicator& comm) {
        const group none, some = group::of(comm).include({1, 2});
        expect((none | some).rank() == some.rank() && (some | none).rank() == some.rank(), "union");
    });
    SUCCEED();
}

TEST_CASE("union, intersection and difference are those of sets, in the order of the first group") {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    allfold::thread_world world(12);
    const allfold::thread_communicator comm = world.communicator(3);
    const group all = group::of(comm);
    const auto some = [&] {
        ranks picked(12);
        for (int i = 0; i < 12; ++i) picked[static_cast<std::size_t>(i)] = i;
        std::ranges::shuffle(picked, random);
        picked.resize(random() % 13);
        return all.include(rank_list(picked));
    };
    for (int i = 0; i < 200; ++i) {
        const group a = some(), b = some();
        const ranks x = ranks_of(a), y = ranks_of(b);
        const std::set<int> in_a(x.begin(), x.end()), in_b(y.begin(), y.end());
        ranks both = x, common, rest;
        for (const int r : y)
            if (!in_a.contains(r)) both.push_back(r);
        for (const int r : x) (in_b.contains(r) ? common : rest).push_back(r);
        REQUIRE(ranks_of(a | b) == both);
        REQUIRE(ranks_of(a & b) == common);
        REQUIRE(ranks_of(a - b) == rest);
        REQUIRE(((a - b) | (a & b)).compare(a) != likeness::unequal);
    }
}
