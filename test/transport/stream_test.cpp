// SPDX-License-Identifier: BSL-1.0
#include "allfold/transport/detail/stream.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "test/support/catch.hpp"

TEST_CASE("bytes go past all caches from anywhere to anywhere, and none beside them is written") {
    constexpr std::size_t room = 512;
    constexpr std::byte untouched{0xEE};
    alignas(64) std::array<std::byte, room> from{}, to{};
    for (std::size_t i = 0; i < room; ++i) from[i] = static_cast<std::byte>(i * 7 + 1);
    for (const std::size_t source : {0u, 1u, 40u})
        for (const std::size_t target : {1u, 8u, 63u, 64u, 100u})
            for (std::size_t bytes = 0; bytes <= 300; ++bytes) {
                to.fill(untouched);
                allfold::detail::stream_bytes(to.data() + target, from.data() + source, bytes);
                allfold::detail::finish_streams();
                const auto is_untouched = [](std::byte b) { return b == untouched; };
                const bool is_right =
                    std::equal(to.begin() + target, to.begin() + target + bytes, from.begin() + source) &&
                    std::all_of(to.begin(), to.begin() + target, is_untouched) &&
                    std::all_of(to.begin() + target + bytes, to.end(), is_untouched);
                INFO(bytes << " bytes from " << source << " to " << target);
                REQUIRE(is_right);
            }
}

TEST_CASE("bytes that lie where some of them go are moved") {
    constexpr std::size_t room = 256, bytes = 200;
    for (const std::size_t source : {0u, 1u, 40u})
        for (const std::size_t target : {0u, 1u, 40u, 56u}) {
            std::array<std::byte, room> all{};
            for (std::size_t i = 0; i < room; ++i) all[i] = static_cast<std::byte>(i);
            const auto before = all;
            allfold::detail::stream_or_move(all.data() + target, all.data() + source, bytes);
            CHECK(std::equal(all.begin() + target, all.begin() + target + bytes, before.begin() + source));
        }
}
