// SPDX-License-Identifier: BSL-1.0
#include "allfold/schedule/block_set.hpp"

#include <algorithm>
#include <vector>

#include "test/support/catch.hpp"

using allfold::block_run;
using allfold::block_set;

namespace {

std::vector<int> listed(const block_set& blocks) {
    std::vector<int> all;
    for (int i = 0; i < blocks.size(); ++i) all.push_back(blocks[i]);
    return all;
}

}  // namespace

TEST_CASE("a block set is contiguous, wrapping, or strided in groups") {
    CHECK(listed(block_set::all(3)) == std::vector{0, 1, 2});
    CHECK(listed(block_set::one(5)) == std::vector{5});
    CHECK(listed(block_set::wrapping(4, 3, 6)) == std::vector{4, 5, 0});
    CHECK(listed(block_set::wrapping(1, 3, 6)) == std::vector{1, 2, 3});
    CHECK(listed(block_run{2, 2, 8, 2}) == std::vector{2, 3, 10, 11});
    CHECK(listed({block_run{0, 2, 4, 2}, block_run{9, 3, 2, 1}}) == std::vector{0, 1, 4, 5, 9, 11, 13});
    CHECK(block_set().empty());
    CHECK(block_set::all(0).empty());
}

TEST_CASE("a block set contains what it lists and nothing else") {
    const block_set sets[] = {{},
                              block_set::one(0),
                              block_set::all(7),
                              block_set::wrapping(5, 6, 8),
                              block_run{3, 3, 5, 2},
                              block_run{0, 2, 1, 3},  // groups that overlap
                              block_run{4, 2, 0, 2},
                              {block_run{1, 2, 6, 2}, block_run{15, 4, 3, 1}}};
    for (const block_set& blocks : sets) {
        const std::vector<int> members = listed(blocks);
        for (int block = -3; block < 40; ++block)
            CHECK(blocks.contains(block) == (std::find(members.begin(), members.end(), block) != members.end()));
    }
}

TEST_CASE("a block set of groups is one of their ranks") {
    CHECK(listed(block_set::one(2).times(3)) == std::vector{6, 7, 8});
    CHECK(listed(block_set::wrapping(2, 2, 3).times(2)) == std::vector{4, 5, 0, 1});
    CHECK(listed(block_set(block_run{1, 2, 3, 1}).times(2)) == std::vector{2, 3, 8, 9});
    CHECK(listed(block_set(block_run{1, 2, 4, 2}).times(2)) == std::vector{2, 3, 4, 5, 10, 11, 12, 13});
    CHECK(block_set().times(4).empty());
    CHECK(block_set::all(5).times(1) == block_set::all(5));
}

TEST_CASE("block sets are equal when they list the same blocks in the same order") {
    STATIC_REQUIRE(block_set::wrapping(0, 4, 4) == block_set::all(4));
    STATIC_REQUIRE(block_set(block_run{0, 2, 2, 1}) == block_set(block_run{0, 1, 1, 1}, block_run{2, 1, 1, 1}));
    STATIC_REQUIRE(block_set::wrapping(3, 2, 4) != block_set(block_run{0, 1, 1, 1}, block_run{3, 1, 1, 1}));
    STATIC_REQUIRE(block_set::one(1) != block_set::all(2));
}
