// SPDX-License-Identifier: BSL-1.0
#include "allfold/data/partition.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "test/support/catch.hpp"

using allfold::partition;

namespace {

std::vector<std::size_t> extents(const partition& p) {
    std::vector<std::size_t> all;
    for (int b = 0; b < p.blocks(); ++b) all.push_back(p.extent(b));
    return all;
}

void check_adds_up(const partition& p, std::size_t total) {
    CHECK(p.total() == total);
    CHECK(p.offset(0) == 0);
    CHECK(p.offset(p.blocks()) == total);
    std::size_t sum = 0, largest = 0;
    for (int b = 0; b < p.blocks(); ++b) {
        CHECK(p.offset(b) == sum);
        sum += p.extent(b);
        largest = std::max(largest, p.extent(b));
    }
    CHECK(sum == total);
    CHECK(p.largest() == largest);
}

}  // namespace

TEST_CASE("blocks of every kind follow one another and add up") {
    for (const std::size_t total : {0u, 1u, 2u, 5u, 12u, 13u, 1000u})
        for (const int blocks : {1, 2, 3, 5, 12, 13, 40}) {
            INFO(total << " elements in " << blocks << " blocks");
            check_adds_up(partition::even(total, blocks), total);
            check_adds_up(partition::ceil(total, blocks), total);
            for (const std::size_t grain : {1u, 4u, 16u})
                check_adds_up(partition::even_grains(total, blocks, grain), total);
        }
}

TEST_CASE("an even partition differs by one element at most, larger blocks first") {
    CHECK(extents(partition::even(10, 4)) == std::vector<std::size_t>{3, 3, 2, 2});
    CHECK(extents(partition::even(2, 4)) == std::vector<std::size_t>{1, 1, 0, 0});
}

TEST_CASE("a ceil partition fills its blocks until nothing is left") {
    CHECK(extents(partition::ceil(10, 4)) == std::vector<std::size_t>{3, 3, 3, 1});
    CHECK(extents(partition::ceil(9, 4)) == std::vector<std::size_t>{3, 3, 3, 0});
}

TEST_CASE("blocks of grains end within a grain at the end only") {
    CHECK(extents(partition::even_grains(70, 3, 16)) == std::vector<std::size_t>{32, 32, 6});
}

TEST_CASE("sizes can be anything, zero too") {
    const auto p = partition::sizes({0, 3, 0, 4});
    CHECK(extents(p) == std::vector<std::size_t>{0, 3, 0, 4});
    check_adds_up(p, 7);
    check_adds_up(partition::sizes(std::vector<int>{2, 0}), 2);
}
