// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

/// @file
/// The processors that this process has.

namespace allfold::detail {

/// How many processors this process may use.
[[nodiscard]] inline int usable_processors() noexcept {
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
    return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace allfold::detail
