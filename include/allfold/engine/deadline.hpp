// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>

/// @file
/// How long a rank waits.

namespace allfold {

/// How long a rank waits. When it passes, every rank of the communicator throws `errc::timeout`.
struct deadline {
    std::chrono::steady_clock::time_point at;

    template <class Rep, class Period>
    constexpr explicit deadline(std::chrono::duration<Rep, Period> from_now)
        : at(std::chrono::steady_clock::now() +
             std::chrono::duration_cast<std::chrono::steady_clock::duration>(from_now)) {}
    constexpr explicit deadline(std::chrono::steady_clock::time_point when) : at(when) {}
};

}  // namespace allfold
