// SPDX-License-Identifier: BSL-1.0
#include "allfold/schedule/canonical_tree.hpp"

#include <string>

#include "test/support/catch.hpp"

using allfold::canonical_cut;
using allfold::power_of_two_fold;

namespace {

std::string bracketed(int size, int low, int high) {
    if (high - low == 1) return std::to_string(low);
    const int cut = canonical_cut(size, low, high);
    return "(" + bracketed(size, low, cut) + bracketed(size, cut, high) + ")";
}

int nodes(int size) {
    int n = 0;
    for (int low = 0; low < size; ++low)
        for (int high = low + 2; high <= size; ++high) n += canonical_cut(size, low, high) != 0 ? 1 : 0;
    return n;
}

}  // namespace

TEST_CASE("the canonical tree brackets so") {
    CHECK(bracketed(1, 0, 1) == "0");
    CHECK(bracketed(2, 0, 2) == "(01)");
    CHECK(bracketed(3, 0, 3) == "((01)2)");
    CHECK(bracketed(4, 0, 4) == "((01)(23))");
    CHECK(bracketed(5, 0, 5) == "(((01)2)(34))");
    CHECK(bracketed(6, 0, 6) == "(((01)(23))(45))");
    CHECK(bracketed(7, 0, 7) == "(((01)(23))((45)6))");
    CHECK(bracketed(8, 0, 8) == "(((01)(23))((45)(67)))");
}

TEST_CASE("the canonical tree of P operands has P - 1 inner nodes, and nothing else is one") {
    for (int size = 1; size <= 70; ++size) CHECK(nodes(size) == size - 1);
    STATIC_REQUIRE(canonical_cut(6, 1, 3) == 0);
    STATIC_REQUIRE(canonical_cut(6, 0, 7) == 0);
    STATIC_REQUIRE(canonical_cut(6, -1, 1) == 0);
    STATIC_REQUIRE(canonical_cut(6, 2, 3) == 0);
}

TEST_CASE("the leaves of a fold to a power of two stand for all ranks in order") {
    for (int size = 1; size <= 200; ++size) {
        const power_of_two_fold ranks(size);
        REQUIRE(ranks.leaves() + ranks.extra == size);
        REQUIRE(ranks.leaves() <= size);
        REQUIRE(size < 2 * ranks.leaves());
        for (int leaf = 0; leaf < ranks.leaves(); ++leaf)
            for (int r = ranks.first_of(leaf); r <= ranks.last_of(leaf); ++r) {
                REQUIRE(ranks.leaf_of(r) == leaf);
                REQUIRE(ranks.paired(r) == (ranks.last_of(leaf) > ranks.first_of(leaf)));
            }
        REQUIRE(ranks.first_of(ranks.leaves()) == size);
    }
}
