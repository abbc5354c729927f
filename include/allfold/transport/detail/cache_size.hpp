// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#endif

/// @file
/// How much the largest cache holds that this core has a share in.

namespace allfold::detail {

/// Where that cannot be found out it is taken for 32 MiB.
inline constexpr std::size_t usual_cache_bytes = std::size_t{32} << 20;

#if defined(__x86_64__) && defined(__GNUC__)
/// The largest one that a list of caches tells of: leaf 4 of CPUID, or 0x8000001D, which AMD has in its place.
[[nodiscard]] inline std::size_t largest_cache_in(unsigned leaf) noexcept {
    std::size_t largest = 0;
    unsigned a = 0, b = 0, c = 0, d = 0;
    for (unsigned i = 0; i < 16 && __get_cpuid_count(leaf, i, &a, &b, &c, &d) != 0 && (a & 31) != 0; ++i) {
        const std::size_t line = (b & 4095) + 1, partitions = (b >> 12 & 1023) + 1, ways = (b >> 22) + 1;
        largest = std::max(largest, line * partitions * ways * (std::size_t{c} + 1));
    }
    return largest;
}
[[nodiscard]] inline std::size_t find_cache_bytes() noexcept {
    const std::size_t found = std::max(largest_cache_in(4), largest_cache_in(0x8000001d));
    return found != 0 ? found : usual_cache_bytes;
}
#else
[[nodiscard]] inline std::size_t find_cache_bytes() noexcept { return usual_cache_bytes; }
#endif

[[nodiscard]] inline std::size_t cache_bytes() noexcept {
    static const std::size_t found = find_cache_bytes();
    return found;
}

}  // namespace allfold::detail
