// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/transport/rank_list.hpp"
#include "allfold/transport/team.hpp"
#include "test/support/algebras.hpp"
#include "test/support/oracle.hpp"

/// @file
/// Tests of teams, on any transport that can form them.

namespace test {

/// Checks the members of a team, in its order, by gathering them from all: each contributes its rank in the parent.
template <class Comm>
void expect_members(const allfold::team<Comm>& some, int own_rank, const std::string& where) {
    const int size = some->size();
    std::vector<int> gathered(static_cast<std::size_t>(size));
    const std::vector<int> own{own_rank};
    allfold::all_gather(*some, own, gathered);
    expect(some.members().size() == size && some.members()[some->rank()] == own_rank, where + ": wrong place");
    for (int i = 0; i < size; ++i)
        expect(gathered[static_cast<std::size_t>(i)] == some.members()[i], where + ": wrong members");
}

template <class Comm>
void check_teams(Comm& comm) {
    using allfold::color;
    using allfold::likeness;
    using allfold::rank_list;
    using allfold::subset;
    const int P = comm.size(), self = comm.rank();

    const auto even = subset(comm, rank_list::strided(0, (P + 1) / 2, 2));
    expect(static_cast<bool>(even) == (self % 2 == 0), "who is in");
    const auto down = subset(comm, rank_list::strided(P - 1, P, -1));
    const auto again = subset(comm, rank_list::strided(P - 1, P, -1));
    const auto alone = subset(comm, {self});
    const auto nobody = subset(comm, {});
    expect(!nobody && nobody.members().empty(), "nobody is in");
    if (even) expect_members(even, self, "even");
    expect_members(down, self, "down");
    expect(down->rank() == P - 1 - self, "from the last one down");
    expect(alone->size() == 1, "alone");

    if (even) {
        expect(even.compare(even) == likeness::identical, "identical");
        expect(even.translate(even->rank(), down) == P - 1 - self, "translated");
        expect(P < 2 || even.compare(down) == likeness::unequal, "unequal");
    }
    expect(down.compare(again) == likeness::congruent, "congruent");
    const auto whole = subset(comm, rank_list::strided(0, P));
    expect(P < 2 || down.compare(whole) == likeness::similar, "similar");
    expect(whole.compare(comm) == likeness::congruent, "congruent to its parent");
    expect(P < 2 || down.compare(comm) == likeness::similar, "similar to its parent");
    expect(P < 2 || alone.compare(comm) == likeness::unequal, "unequal to its parent");

    const auto by_key = allfold::split(comm, color{self % 3}, -self);
    expect_members(by_key, self, "by key");
    for (int i = 1; i < by_key->size(); ++i)
        expect(by_key.members()[i] == by_key.members()[i - 1] - 3, "keys rank from the last one down");
    const auto some = allfold::split(comm, self == 0 ? allfold::no_color : color{7});
    expect(static_cast<bool>(some) == (self != 0), "no color");
    if (some) expect_members(some, self, "all but the first");

    // The order in the team differs from that in the parent: the fold follows the team's order.
    std::vector<matrix> mine(5, matrices::sample(self, 0)), folded(5);
    allfold::all_reduce(*down, mine, folded, matrices::operation());
    matrix expected = matrices::sample(P - 1, 0);
    for (int r = P - 2; r >= 0; --r) expected = expected * matrices::sample(r, 0);
    for (const matrix& each : folded) expect(each == expected, "the team's order");

    // In flight on all of them at once, waited for in reverse order.
    std::vector<int> x{self, self, self, self};
    std::vector<allfold::operation> started;
    started.push_back(allfold::all_reduce.start(comm, x[0], allfold::sum()));
    started.push_back(allfold::all_reduce.start(*down, x[1], allfold::sum()));
    if (even) started.push_back(allfold::all_reduce.start(*even, x[2], allfold::sum()));
    started.push_back(allfold::all_reduce.start(*by_key, x[3], allfold::sum()));
    while (!started.empty()) {
        started.back().wait();
        started.pop_back();
    }
    int of_even = 0, of_key = 0;
    for (int r = 0; r < P; ++r) {
        of_even += r % 2 == 0 ? r : 0;
        of_key += r % 3 == self % 3 ? r : 0;
    }
    expect(x[0] == P * (P - 1) / 2 && x[1] == x[0] && x[3] == of_key, "sums of all");
    if (even) expect(x[2] == of_even, "the sum of the even ones");
}

/// Splits at random, the same way on all ranks, until a split leaves a team whole; each rank waits for what is in
/// flight on all levels in its own order.
template <class Comm>
void check_nested_splits(Comm& comm, unsigned seed, int depth = 0) {
    std::mt19937 shared(seed * 31 + static_cast<unsigned>(depth)), own(seed + static_cast<unsigned>(comm.rank()) * 97);
    std::vector<int> colors(static_cast<std::size_t>(comm.size()));
    for (int& each : colors) each = static_cast<int>(shared() % 2);
    const int mine = colors[static_cast<std::size_t>(comm.rank())];
    const auto part = allfold::split(comm, allfold::color{mine}, static_cast<int>(shared() % 2) * -comm.rank());
    int members = 0;
    for (const int each : colors) members += each == mine ? 1 : 0;
    expect(part->size() == members, "size of a part");

    const std::size_t n = std::size_t{1} << (shared() % 14);
    std::vector<long> x(n, 1), y(n, 1);
    auto above = allfold::all_reduce.start(comm, x, allfold::sum());
    auto below = allfold::all_reduce.start(*part, y, allfold::sum());
    if (members < comm.size()) check_nested_splits(*part, seed + static_cast<unsigned>(mine), depth + 1);
    if (own() % 2 == 0) above.wait();
    below.wait();
    above.wait();
    expect(x.front() == comm.size() && x.back() == comm.size(), "the sum of a whole");
    expect(y.front() == members && y.back() == members, "the sum of a part");
}

}  // namespace test
