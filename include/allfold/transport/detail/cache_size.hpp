// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>

/// @file
/// The size of the largest cache that this core has a share in.

namespace allfold::detail {

/// Assumed if the size cannot be determined.
inline constexpr std::size_t usual_cache_bytes = std::size_t{32} << 20;

#if defined(__x86_64__) && defined(__GNUC__)
struct cpuid {
    unsigned a, b = 0, c, d = 0;
    /// Avoids <cpuid.h>, whose macros every user of this header would get.
    explicit cpuid(unsigned leaf, unsigned index = 0) noexcept : a(leaf), c(index) {
        asm volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    }
};
/// The largest cache listed in leaf 4, or in 0x8000001D, which AMD has instead.
[[nodiscard]] inline std::size_t largest_cache_in(unsigned leaf) noexcept {
    std::size_t largest = 0;
    if (cpuid(leaf & 0x80000000).a < leaf) return largest;
    for (unsigned i = 0; i < 16; ++i) {
        const cpuid cache(leaf, i);
        if ((cache.a & 31) == 0) break;
        const std::size_t line = (cache.b & 4095) + 1, partitions = (cache.b >> 12 & 1023) + 1;
        const std::size_t ways = (cache.b >> 22) + 1, sets = std::size_t{cache.c} + 1;
        largest = std::max(largest, line * partitions * ways * sets);
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
