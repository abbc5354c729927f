// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "allfold/transport/detail/stream.hpp"

/// @file
/// How far the core of a peer is.

namespace allfold::detail {

/// Measures now and then how long a line takes from the core of a peer: threads move, and who shares a third-level
/// cache with this one now need not do so later. Where it is far, lines that one core has written and the other one
/// reads, or writes again, come one by one; what goes past all caches comes from memory as fast as that can be read.
///
/// AMD Zen 4, two cores under different third-level caches, each copies to a buffer and folds what the other one has
/// copied: streaming stores to `rep movsb` 0.9 of the time at 1 KiB, 0.7 at 2 KiB, 0.45 at 4 KiB, 0.27 at 16 KiB, 0.2
/// from 64 KiB to 4 MiB, 0.9 at 16 MiB. Under one: 2.4, 1.8, 0.95, 0.84, 1.1, 1.4. To hand over what has just been
/// written on Zen 5, far: 1.0 at all lengths; near: 2.9 at 4 and 16 KiB, 2.5 at 64 KiB, 2.1 at 4 MiB.
class distance {
  public:
    /// From here on it matters.
    static constexpr std::size_t least_bytes = 2048;

    /// Whether so many bytes, which go to the peer next, go to a core that is far. `counter`: which the peer counts up
    /// with each message that it takes.
    [[nodiscard]] bool is_far(std::size_t bytes, const std::atomic<std::uint32_t>& counter) noexcept {
        if (bytes < least_bytes || !ALLFOLD_STREAMS) return false;
        if (bytes >= unmeasured_) [[unlikely]]
            measure(counter);
        else
            unmeasured_ -= bytes;
        return is_far_;
    }
    /// The line of the counter has been read, which was this.
    void note(std::uint32_t counted) noexcept { last_read_ = counted; }

  private:
    using clock = std::chrono::steady_clock;

    /// After the first one, two in a row have to agree: one may have been interrupted.
    [[gnu::cold, gnu::noinline]] void measure(const std::atomic<std::uint32_t>& counter) noexcept {
        const clock::time_point begin = clock::now();
        const std::uint32_t counted = counter.load(std::memory_order_acquire);
        const clock::duration time = clock::now() - begin;
        unmeasured_ = 0;
        if (std::exchange(last_read_, counted) == counted) return;  // the line may have been here
        const bool seems_far = time > limit;
        const bool is_sure = !std::exchange(is_measured_, true) || seemed_far_ == seems_far;
        seemed_far_ = seems_far;
        if (!is_sure) return;
        is_far_ = seems_far;
        unmeasured_ = bytes_between;
    }

    /// Of a load and two looks at the clock: 30 to 50 ns and 130 to 150 ns on that Zen 4, where a barrier of two takes
    /// 40 to 90 ns and 200 to 250. A Xeon (Sapphire Rapids), whose barrier takes 155 ns, does not count as far.
    static constexpr std::chrono::nanoseconds limit{110};
    static constexpr std::size_t bytes_between = std::size_t{512} << 10;  // measurements, which take about 0.2 us

    std::size_t unmeasured_ = 0;  // bytes to go without
    std::uint32_t last_read_ = 0;
    bool is_measured_ = false;
    bool seemed_far_ = false;
    bool is_far_ = false;
};

}  // namespace allfold::detail
