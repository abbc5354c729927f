// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <thread>

#include "allfold/transport/detail/cpuid.hpp"

/// @file
/// The largest cache that this core has a share in, and the largest that it has for itself.

namespace allfold::detail {

struct shared_cache {
    std::size_t bytes;
    std::size_t processors;  // that share it
};
/// Assumed if it cannot be determined.
inline constexpr std::size_t usual_cache_bytes = std::size_t{32} << 20;

#if defined(__x86_64__) && defined(__GNUC__)
/// Calls visit(cache, level) for each cache in leaf 4, or in 0x8000001D, which AMD has instead.
template <class Visit>
void for_each_cache_in(unsigned leaf, Visit visit) noexcept {
    if (cpuid(leaf & 0x80000000).a < leaf) return;
    for (unsigned i = 0; i < 16; ++i) {
        const cpuid cache(leaf, i);
        if ((cache.a & 31) == 0) return;
        const std::size_t line = (cache.b & 4095) + 1, partitions = (cache.b >> 12 & 1023) + 1;
        const std::size_t ways = (cache.b >> 22) + 1, sets = std::size_t{cache.c} + 1;
        visit(shared_cache{line * partitions * ways * sets, (cache.a >> 14 & 4095) + std::size_t{1}}, cache.a >> 5 & 7);
    }
}
[[nodiscard]] inline shared_cache largest_cache_up_to(unsigned highest_level) noexcept {
    shared_cache largest{0, 1};
    for (const unsigned leaf : {4U, 0x8000001dU}) {
        for_each_cache_in(leaf, [&](const shared_cache& found, unsigned level) {
            if (level <= highest_level && found.bytes > largest.bytes) largest = found;
        });
        if (largest.bytes != 0) break;
    }
    return largest;
}
[[nodiscard]] inline shared_cache find_cache() noexcept {
    const shared_cache found = largest_cache_up_to(7);
    return found.bytes != 0 ? found : shared_cache{usual_cache_bytes, std::thread::hardware_concurrency()};
}
/// The size of a core's second-level cache; 0 if unknown.
[[nodiscard]] inline std::size_t own_cache_bytes() noexcept {
    static const std::size_t bytes = largest_cache_up_to(2).bytes;
    return bytes;
}
#else
[[nodiscard]] inline shared_cache find_cache() noexcept {
    return {usual_cache_bytes, std::thread::hardware_concurrency()};
}
[[nodiscard]] inline std::size_t own_cache_bytes() noexcept { return 0; }
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
