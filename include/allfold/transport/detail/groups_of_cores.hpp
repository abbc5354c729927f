// SPDX-License-Identifier: BSL-1.0
#pragma once

/// @file
/// Whether this processor divides its cores into groups.

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

}  // namespace allfold::detail
