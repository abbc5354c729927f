// SPDX-License-Identifier: BSL-1.0
#include "allfold/transport/detail/number_table.hpp"

#include <cstdint>
#include <map>
#include <random>

#include "test/support/catch.hpp"

using allfold::detail::number_table;

TEST_CASE("a table of numbers keeps the first number of each key") {
    const std::uint32_t seed = std::random_device{}();
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    number_table table;
    std::map<std::uint64_t, std::uint32_t> expected;
    CHECK(table.find(0) == nullptr);

    for (int i = 0; i < 20'000; ++i) {
        // Keys as they occur in use, with a rank in the bits above a hash, and some that differ only in high bits.
        const std::uint64_t key = i % 3 == 0   ? random()
                                  : i % 3 == 1 ? random() % 64 << 56
                                               : random() % 8 << 32 | random() % 64;
        const auto number = static_cast<std::uint32_t>(i);
        const auto kept = expected.try_emplace(key, number).first->second;
        REQUIRE(table.find_or_add(key, number) == kept);
    }
    for (const auto& [key, number] : expected) {
        const std::uint32_t* const found = table.find(key);
        REQUIRE(found != nullptr);
        CHECK(*found == number);
    }
    for (int i = 0; i < 1000; ++i)
        if (const std::uint64_t key = random(); !expected.contains(key)) CHECK(table.find(key) == nullptr);
}
