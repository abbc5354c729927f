// SPDX-License-Identifier: BSL-1.0
#include "allfold/data/block_cyclic.hpp"

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "test/support/catch.hpp"

using allfold::block_cyclic;
using allfold::errc;

namespace {

constexpr std::size_t greatest = std::numeric_limits<std::size_t>::max();

/// Deals out the elements one by one, and compares with what the layout says.
void check(const block_cyclic& layout, int ranks) {
    INFO(layout.text() << " on " << ranks << " ranks");
    std::vector<std::vector<std::size_t>> held(static_cast<std::size_t>(ranks));
    for (std::size_t i = 0; i < layout.count; ++i) {
        const std::size_t owner = (layout.offset + i) / layout.block % held.size();
        if (layout.owner(i, ranks) != static_cast<int>(owner)) FAIL("owner of " << i);
        if (layout.local_index(i, ranks) != held[owner].size()) FAIL("local index of " << i);
        held[owner].push_back(i);
    }
    for (int r = 0; r < ranks; ++r) {
        const auto& own = held[static_cast<std::size_t>(r)];
        REQUIRE(layout.extent(r, ranks) == own.size());
        for (std::size_t local = 0; local < own.size(); ++local)
            if (layout.global_index(r, local, ranks) != own[local]) FAIL("element " << local << " of rank " << r);
    }
}

template <class Call>
void require_error(errc code, const std::string& words, Call call) {
    try {
        call();
        FAIL("no error: " << words);
    } catch (const allfold::error& e) {
        CHECK(e.code() == code);
        INFO(e.what());
        CHECK(std::string(e.what()).find(words) != std::string::npos);
    }
}

}  // namespace

TEST_CASE("blocks go round the ranks") {
    for (const int ranks : {1, 2, 3, 8})
        for (const std::size_t block : {1U, 2U, 3U, 7U, 100U})
            for (const std::size_t offset : {0U, 1U, 5U, 24U, 1000U})
                for (const std::size_t count : {0U, 1U, 10U, 101U}) check({block, offset, count}, ranks);
    constexpr block_cyclic layout{.block = 3, .offset = 4, .count = 10};  // the layout that the header draws
    STATIC_REQUIRE(layout.extent(0, 3) == 3);
    STATIC_REQUIRE(layout.extent(1, 3) == 4);
    STATIC_REQUIRE(layout.owner(8, 3) == 1);
    STATIC_REQUIRE(layout.local_index(8, 3) == 2);
    STATIC_REQUIRE(layout.global_index(1, 2, 3) == 8);
}

TEST_CASE("an array lies on one rank, in a block for each rank, and in blocks without end") {
    for (const std::size_t count : {0U, 1U, 10U}) {
        const auto alone = block_cyclic::on_rank(2, count);
        CHECK(alone.extent(2, 3) == count);
        CHECK(alone.extent(0, 3) == 0);
        check(alone, 3);
    }
    CHECK(block_cyclic::blocks(10, 4).extent(0, 4) == 3);
    CHECK(block_cyclic::blocks(10, 4).extent(3, 4) == 1);
    CHECK(block_cyclic::blocks(0, 4).extent(0, 4) == 0);
    const block_cyclic endless{greatest, 7, 10};
    CHECK(endless.extent(0, 3) == 10);
    CHECK(endless.local_index(9, 3) == 9);
    CHECK(endless.global_index(0, 9, 3) == 9);
}

TEST_CASE("blocks of nothing, positions that nobody has and elements that are not there are refused") {
    require_error(errc::bad_partition, "block_cyclic{0, 0, 4} has empty blocks",
                  [] { static_cast<void>(block_cyclic{0, 0, 4}.extent(0, 2)); });
    require_error(errc::bad_partition, "has positions beyond",
                  [] { static_cast<void>(block_cyclic{1, greatest - 3, 4}.extent(0, 2)); });
    require_error(errc::bad_argument, "block_cyclic{2, 0, 4} has no element 4",
                  [] { static_cast<void>(block_cyclic{2, 0, 4}.owner(4, 2)); });
    require_error(errc::bad_argument, "rank 1 has no element 2: it holds 2",
                  [] { static_cast<void>(block_cyclic{2, 0, 4}.global_index(1, 2, 2)); });
    require_error(errc::bad_rank, "rank 2 is not in [0, 2)",
                  [] { static_cast<void>(block_cyclic{2, 0, 4}.extent(2, 2)); });
}
