// SPDX-License-Identifier: BSL-1.0
#pragma once

/// @file
/// What kind of processor this is.

namespace allfold::detail {

/// Whether cores of one processor may be far from each other: on those of AMD, where groups of cores have a third-level
/// cache each. On those of Intel all cores share one.
[[nodiscard]] inline bool has_groups_of_cores() noexcept {
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    return __builtin_cpu_is("amd") != 0;
#else
    return false;
#endif
}

}  // namespace allfold::detail
