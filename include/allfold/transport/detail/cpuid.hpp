// SPDX-License-Identifier: BSL-1.0
#pragma once

/// @file
/// What an x86 processor says of itself.

namespace allfold::detail {

#if defined(__x86_64__) && defined(__GNUC__)
struct cpuid {
    unsigned a, b = 0, c, d = 0;
    /// Avoids <cpuid.h>, whose macros every user of this header would get.
    explicit cpuid(unsigned leaf, unsigned index = 0) noexcept : a(leaf), c(index) {
        asm volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    }
};
/// 0x17 for AMD Zen and Zen 2, 0x19 for Zen 3 and Zen 4, 0x1a for Zen 5; 6 for most of Intel's.
[[nodiscard]] inline unsigned processor_family() noexcept {
    const unsigned signature = cpuid(1).a, base = signature >> 8 & 15;
    return base == 15 ? base + (signature >> 20 & 255) : base;
}
#endif

}  // namespace allfold::detail
