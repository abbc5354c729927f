// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <thread>

#include "allfold/transport/detail/cpuid.hpp"

/// @file
/// The largest cache that this core has a share in.

namespace allfold::detail {

struct shared_cache {
    std::size_t bytes;
    std::size_t processors;  // that share it
};
/// Assumed if it cannot be determined.
inline constexpr std::size_t usual_cache_bytes = std::size_t{32} << 20;

#if defined(__x86_64__) && defined(__GNUC__)
/// The largest cache listed in leaf 4, or in 0x8000001D, which AMD has instead.
[[nodiscard]] inline shared_cache largest_cache_in(unsigned leaf) noexcept {
    shared_cache largest{0, 1};
    if (cpuid(leaf & 0x80000000).a < leaf) return largest;
    for (unsigned i = 0; i < 16; ++i) {
        const cpuid cache(leaf, i);
        if ((cache.a & 31) == 0) break;
        const std::size_t line = (cache.b & 4095) + 1, partitions = (cache.b >> 12 & 1023) + 1;
        const std::size_t ways = (cache.b >> 22) + 1, sets = std::size_t{cache.c} + 1;
        const shared_cache found{line * partitions * ways * sets, (cache.a >> 14 & 4095) + std::size_t{1}};
        if (found.bytes > largest.bytes) largest = found;
    }
    return largest;
}
[[nodiscard]] inline shared_cache find_cache() noexcept {
    for (const unsigned leaf : {4U, 0x8000001dU})
        if (const shared_cache found = largest_cache_in(leaf); found.bytes != 0) return found;
    return {usual_cache_bytes, std::thread::hardware_concurrency()};
}
#else
[[nodiscard]] inline shared_cache find_cache() noexcept {
    return {usual_cache_bytes, std::thread::hardware_concurrency()};
}
#endif

/// The share of each of several ranks. As long as each has a processor, they may be those that share a cache.
[[nodiscard]] inline std::size_t cache_share(const shared_cache& cache, std::size_t ranks,
                                             std::size_t processors) noexcept {
    const std::size_t crowded = ranks * cache.processors / std::max(processors, std::size_t{1});
    return cache.bytes / std::max({std::min(ranks, cache.processors), crowded, std::size_t{1}});
}
[[nodiscard]] inline std::size_t cache_share(int ranks) noexcept {
    static const shared_cache cache = find_cache();
    static const std::size_t processors = std::thread::hardware_concurrency();
    return cache_share(cache, static_cast<std::size_t>(ranks), processors);
}

}  // namespace allfold::detail
