// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <chrono>
#include <optional>

/// @file
/// How long a rank waits.

namespace allfold {

/// Limits how long a rank waits. When it expires, every rank of the communicator throws `errc::timeout`.
///
/// A duration counts from each call, or start, that it is given to, so `deadline{2s}` may be stored and reused. A
/// hundred years or more, including infinity, means forever; zero, a negative duration or NaN expires at once. A time
/// point is used as it is.
class deadline {
  public:
    using clock = std::chrono::steady_clock;

    template <class Rep, class Period>
    constexpr explicit deadline(std::chrono::duration<Rep, Period> after) : after_(in_range(after)) {}
    constexpr explicit deadline(clock::time_point when) : at_(when) {}

    /// The time at which it expires for a call that begins now; empty if it never does.
    [[nodiscard]] std::optional<clock::time_point> from_now() const {
        if (at_) return *at_ == clock::time_point::max() ? std::nullopt : at_;
        if (after_ == clock::duration::max()) return std::nullopt;
        return clock::now() + after_;
    }

  private:
    template <class Duration>
    [[nodiscard]] static constexpr clock::duration in_range(Duration after) noexcept {
        constexpr double for_ever = 100.0 * 365 * 24 * 60 * 60;
        const double seconds = std::chrono::duration<double>(after).count();
        if (!(seconds > 0)) return clock::duration::zero();
        return seconds < for_ever ? std::chrono::duration_cast<clock::duration>(after) : clock::duration::max();
    }

    clock::duration after_{};
    std::optional<clock::time_point> at_;
};

}  // namespace allfold
