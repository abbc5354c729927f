// SPDX-License-Identifier: BSL-1.0
#include "allfold/schedule/step.hpp"

#include <string>
#include <string_view>
#include <vector>

#include "allfold/schedule/binomial.hpp"
#include "allfold/schedule/direct.hpp"
#include "allfold/schedule/neighbour_exchange.hpp"
#include "allfold/schedule/ring.hpp"
#include "allfold/schedule/two_level.hpp"
#include "test/support/catch.hpp"

using allfold::block_set;
using allfold::peers;
using allfold::step;

namespace {

struct smallest {
    static constexpr allfold::collective goal = allfold::collective::barrier;
    static constexpr allfold::order keeps = allfold::order::tree;
    static constexpr int scratch_slots = 0;
    static constexpr bool in_place = true;
    [[nodiscard]] int rank() const { return 0; }
    [[nodiscard]] int size() const { return 1; }
    [[nodiscard]] int blocks() const { return 0; }
    [[nodiscard]] int rounds() const { return 0; }
    step operator[](int) const { return {}; }
};
static_assert(allfold::schedule<smallest>);
static_assert(!allfold::rooted_schedule<smallest> && !allfold::slice_owner_schedule<smallest>);

struct without_steps : smallest {
    step operator[](int) const = delete;
};
struct without_goal : smallest {
    static constexpr std::string_view goal = "barrier";
};
struct without_order : smallest {
    static constexpr const char* keeps = "tree";
};
struct without_rounds : smallest {
    [[nodiscard]] std::string rounds() const { return "0"; }
};
static_assert(!allfold::schedule<without_steps> && !allfold::schedule<without_goal>);
static_assert(!allfold::schedule<without_order> && !allfold::schedule<without_rounds>);

struct not_slice_owner : smallest {
    static constexpr bool slice_owner = false;
};
static_assert(!allfold::slice_owner_schedule<not_slice_owner>);

struct not_grouped : smallest {
    static constexpr bool grouped = false;
};
static_assert(!allfold::grouped_schedule<smallest> && !allfold::grouped_schedule<not_grouped>);

}  // namespace

TEST_CASE("the peers of a step are listed in rank order and never contain the rank itself") {
    constexpr int size = 5;
    for (int self = 0; self < size; ++self)
        for (const peers& who :
             {peers(), peers::one((self + 2) % size), peers::everyone(), peers::lower(), peers::higher(),
              peers::range(0, size), peers::range(1, 4), peers::range(3, 5), peers::range(2, 2), peers::range(4, 1)}) {
            std::vector<int> listed, contained;
            for (int i = 0; i < who.count(self, size); ++i) {
                listed.push_back(who.at(i, self));
                CHECK(who.index_of(who.at(i, self), self) == i);
            }
            int below = 0;
            for (int r = 0; r < size; ++r) {
                if (who.contains(r, self)) contained.push_back(r);
                if (who.contains(r, self) && r < self) ++below;
            }
            CHECK(listed == contained);
            CHECK(who.count_below(self, size) == below);
            CHECK_FALSE(who.contains(self, self));
        }
}

TEST_CASE("a message to each peer by itself holds the peer's block, and that from it its own") {
    const step s{.to = peers::everyone(),
                 .sent = allfold::addressed::per_peer,
                 .from = peers::everyone(),
                 .receive = block_set::one(2)};
    CHECK(s.sent_to(3) == block_set::one(3));
    CHECK(s.received_from(3) == block_set::one(2));
    CHECK_FALSE(s.idle());
    CHECK(step().idle());
    CHECK_FALSE(step{.local = allfold::keep_input(block_set::one(0))}.idle());
}

TEST_CASE("what comes from a lower rank is folded on the left") {
    STATIC_REQUIRE(allfold::side_of(1, 2) == allfold::fold::left);
    STATIC_REQUIRE(allfold::side_of(3, 2) == allfold::fold::right);
}

TEST_CASE("a schedule is made with a root where its collective has one") {
    STATIC_REQUIRE(allfold::rooted_schedule<allfold::direct::reduce>);
    STATIC_REQUIRE_FALSE(allfold::rooted_schedule<allfold::ring::all_reduce>);
    CHECK(allfold::make_schedule<allfold::binomial::reduce>(1, 4, 3).root() == 3);
    CHECK(allfold::make_schedule<allfold::ring::all_reduce>(1, 4, 3).rank() == 1);
}

TEST_CASE("a schedule is made with a group where it is grouped, and a root too where it has one") {
    STATIC_REQUIRE(allfold::grouped_schedule<allfold::two_level::barrier>);
    STATIC_REQUIRE_FALSE(allfold::rooted_schedule<allfold::two_level::barrier>);
    STATIC_REQUIRE(allfold::rooted_schedule<allfold::two_level::reduce>);
    CHECK(allfold::make_schedule<allfold::two_level::barrier>(5, 8, 3, 4).leader() == 4);
    CHECK(allfold::make_schedule<allfold::two_level::barrier>(5, 8).leader() == 5);
    CHECK(allfold::make_schedule<allfold::two_level::reduce>(5, 8, 3, 2).root() == 3);
    CHECK(allfold::make_schedule<allfold::two_level::reduce>(5, 8, 3, 2).root_group() == 1);
    CHECK(allfold::make_schedule<allfold::binomial::reduce>(1, 4, 3, 2).root() == 3);
}

TEST_CASE("a schedule exists for every positive number of ranks unless it says otherwise") {
    STATIC_REQUIRE(allfold::supports<allfold::direct::reduce>(7));
    STATIC_REQUIRE_FALSE(allfold::supports<allfold::direct::reduce>(0));
    STATIC_REQUIRE_FALSE(allfold::supports<allfold::neighbour_exchange::all_reduce>(7));
    STATIC_REQUIRE(allfold::supports<allfold::ring::all_reduce>(7, 2));
    STATIC_REQUIRE_FALSE(allfold::supports<allfold::two_level::barrier>(7, 2));
}
