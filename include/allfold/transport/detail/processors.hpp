// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

/// @file
/// The CPUs that this process has.

namespace allfold::detail {

/// How many CPUs this process may use.
[[nodiscard]] inline int usable_processors() noexcept {
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
    return static_cast<int>(std::thread::hardware_concurrency());
}

/// One bit for each CPU that this process may use; all zero if that cannot be determined.
using processor_bits = std::array<std::uint64_t, 64>;
[[nodiscard]] inline processor_bits usable_processor_bits() noexcept {
    processor_bits bits{};
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu)
            if (CPU_ISSET(cpu, &set)) bits[cpu / 64] |= std::uint64_t{1} << cpu % 64;
#endif
    return bits;
}

}  // namespace allfold::detail
