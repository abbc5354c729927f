// SPDX-License-Identifier: BSL-1.0
#include "allfold/schedule/step.hpp"

#include <string>
#include <vector>

#include "allfold/schedule/binomial.hpp"
#include "allfold/schedule/direct.hpp"
#include "allfold/schedule/mirrored_doubling.hpp"
#include "allfold/schedule/ring.hpp"
#include "allfold/schedule/two_level.hpp"
#include "test/support/catch.hpp"

using allfold::block_set;
using allfold::peers;
using allfold::step;

namespace {

struct smallest {
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

struct without_steps : smallest {
    step operator[](int) const = delete;
};
struct without_order : smallest {
    static constexpr const char* keeps = "tree";
};
struct without_rounds : smallest {
    [[nodiscard]] std::string rounds() const { return "0"; }
};
static_assert(!allfold::schedule<without_steps> && !allfold::schedule<without_order> &&
              !allfold::schedule<without_rounds>);

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
              peers::range(0, size), peers::range(1, 4), peers::range(3, 5), peers::range(2, 2), peers::range(4, 1),
              peers::strided((self + 1) % size, 2, 2, size), peers::strided((self + 4) % size, 1, 4, size),
              peers::strided((self + 2) % size, 3, 1, size), peers::strided((self + 3) % size, 0, 1, size)}) {
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
    const smallest alone;
    CHECK(sent_to(alone, s, 0, 3) == block_set::one(3));
    CHECK(received_from(alone, s, 0, 3) == block_set::one(2));
    CHECK_FALSE(s.idle());
    CHECK(step().idle());
    CHECK_FALSE(step{.local = allfold::keep_input(block_set::one(0))}.idle());
}

TEST_CASE("what comes from a lower rank is folded on the left") {
    STATIC_REQUIRE(allfold::side_of(1, 2) == allfold::fold::left);
    STATIC_REQUIRE(allfold::side_of(3, 2) == allfold::fold::right);
}

TEST_CASE("a schedule that names blocks for each peer is asked for them where a step says so") {
    struct pairs : smallest {
        [[nodiscard]] block_set sent_to(int round, int peer) const { return block_set::one(10 * round + peer); }
        [[nodiscard]] block_set received_from(int, int peer) const { return block_set::all(peer); }
    };
    const step apart{.sent = allfold::addressed::per_peer, .received = allfold::addressed::per_peer};
    CHECK(sent_to(pairs(), apart, 2, 3) == block_set::one(23));
    CHECK(received_from(pairs(), apart, 2, 3) == block_set::all(3));
    CHECK(sent_to(pairs(), step{.send = block_set::one(7)}, 2, 3) == block_set::one(7));
}

TEST_CASE("a schedule is made of its setting, and of its algorithm where that has parameters") {
    struct with_parameter : smallest {
        constexpr with_parameter(const allfold::setting& where, int k) : sum(where.rank + k) {}
        int sum;
    };
    CHECK(allfold::make_schedule<with_parameter>(allfold::setting{1, 4}, 5).sum == 6);
    const allfold::setting where{5, 8, 3, 4};
    CHECK(allfold::make_schedule<allfold::binomial::reduce>(where, allfold::binomial{}).where() == where);
    CHECK(allfold::two_level::barrier(where).leader() == 4);
    CHECK(allfold::two_level::barrier(where).own_group() == 1);
    CHECK(allfold::two_level::reduce(where).root_group() == 0);
    CHECK(where.at(2) == allfold::setting{2, 8, 3, 4});
}

TEST_CASE("a schedule exists for every positive number of ranks unless it says otherwise") {
    STATIC_REQUIRE(allfold::supports<allfold::direct::reduce>(7));
    STATIC_REQUIRE_FALSE(allfold::supports<allfold::direct::reduce>(0));
    STATIC_REQUIRE_FALSE(allfold::supports<allfold::mirrored_doubling::all_reduce>(7));
    STATIC_REQUIRE(allfold::supports<allfold::ring::all_reduce>(7, 2));
    STATIC_REQUIRE_FALSE(allfold::supports<allfold::two_level::barrier>(7, 2));
}

TEST_CASE("a scratch slot has copies of each block, or of a single one") {
    STATIC_REQUIRE(allfold::scratch_of(smallest()).count(5) == 5);
    STATIC_REQUIRE(allfold::scratch_of(smallest()).copied(4) == 4);
    constexpr allfold::scratch_blocks pieces{.copies = 3};
    STATIC_REQUIRE(pieces.count(5) == 15);
    STATIC_REQUIRE(pieces.copied(5) == 1);
    STATIC_REQUIRE_FALSE(pieces.of_one_block());
    constexpr allfold::scratch_blocks one{.copies = 3, .only = 4};
    STATIC_REQUIRE(one.count(5) == 3);
    STATIC_REQUIRE(one.copied(0) == 4);
    STATIC_REQUIRE(one.copied(2) == 4);
    struct with_scratch : smallest {
        [[nodiscard]] constexpr allfold::scratch_blocks scratch() const { return {.copies = 2}; }
    };
    STATIC_REQUIRE(allfold::scratch_of(with_scratch()).count(5) == 10);
}
