// SPDX-License-Identifier: BSL-1.0
#include "allfold/data/partition.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
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
    CHECK_THROWS_WITH(partition::even_grains(70, 3, 0), "partition: the grain must not be 0");
}

TEST_CASE("partitions of as many elements as there can be add up") {
    constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
    for (const std::size_t total : {std::size_t{0}, std::size_t{10}, most - 1, most})
        for (const int blocks : {1, 2, 4, 7}) {
            INFO(total << " elements in " << blocks << " blocks");
            check_adds_up(partition::even(total, blocks), total);
            check_adds_up(partition::ceil(total, blocks), total);
            for (const std::size_t grain : {std::size_t{16}, most / 2, most / 2 + 1, most})
                check_adds_up(partition::even_grains(total, blocks, grain), total);
        }
    CHECK(extents(partition::even_grains(10, 4, most)) == std::vector<std::size_t>{10, 0, 0, 0});
    CHECK(extents(partition::ceil(most, 2)) == std::vector<std::size_t>{most / 2 + 1, most / 2});
}

TEST_CASE("sizes can be anything, zero too") {
    const auto p = partition::sizes({0, 3, 0, 4});
    CHECK(extents(p) == std::vector<std::size_t>{0, 3, 0, 4});
    check_adds_up(p, 7);
    check_adds_up(partition::sizes(std::vector<int>{2, 0}), 2);
}

TEST_CASE("a negative size, and sizes that add up to more than there can be, are a bad partition") {
    const auto refusal = [](const auto& sizes) {
        try {
            static_cast<void>(partition::sizes(sizes));
        } catch (const allfold::error& e) {
            CHECK(e.code() == allfold::errc::bad_partition);
            return std::string(e.what());
        }
        return std::string("accepted");
    };
    CHECK(refusal(std::vector<int>{3, -1, 2}) == "partition: block 1 has -1 elements");
    CHECK(refusal(std::vector<long long>{-1}) == "partition: block 0 has -1 elements");
    const std::size_t most = std::numeric_limits<std::size_t>::max();
    CHECK(refusal(std::vector<std::size_t>{most, 0, 1}).find("blocks 0 to 2 add up to a total that overflows") !=
          std::string::npos);
    CHECK(refusal(std::vector<std::size_t>{most, 0}) == "accepted");
}

TEST_CASE("partitions are equal when their borders are, however they were described") {
    CHECK(partition::even(8, 2) == partition::sizes({4, 4}));
    CHECK(partition::ceil(9, 2) == partition::even(9, 2));
    CHECK_FALSE(partition::ceil(10, 4) == partition::even(10, 4));
    CHECK_FALSE(partition::even(8, 2) == partition::even(8, 4));
    CHECK(partition::even(8, 4).is_uniform());
    CHECK_FALSE(partition::even(9, 4).is_uniform());
}
