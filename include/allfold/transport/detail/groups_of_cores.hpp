// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include "allfold/transport/detail/cpuid.hpp"

/// @file
/// Whether this processor divides its cores into groups, and what is fast between them.

namespace allfold::detail {

/// Whether cores of one processor may be far from each other: true on AMD, where each group of cores has a third-level
/// cache of its own. On Intel all cores share one.
[[nodiscard]] inline bool has_groups_of_cores() noexcept {
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    return __builtin_cpu_is("amd") != 0;
#else
    return false;
#endif
}

/// From which length on what a core of another group reads next is best written with streaming stores: any up to Zen 4;
/// on Zen 5 what takes half of a second-level cache or more. See `distance`.
[[nodiscard]] inline std::size_t min_streamed_between_groups() noexcept {
#if defined(__x86_64__) && defined(__GNUC__)
    constexpr unsigned zen_5 = 0x1a;
    if (has_groups_of_cores() && processor_family() >= zen_5) return std::size_t{512} << 10;
#endif
    return 0;
}

}  // namespace allfold::detail
