// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "allfold/transport/detail/groups_of_cores.hpp"
#include "allfold/transport/detail/stream.hpp"

/// @file
/// How far the core of a peer is.

namespace allfold::detail {

/// Measures now and then how long a line takes from the core of a peer: threads move, and who shares a third-level
/// cache with this one now need not do so later. Where it is far, what one core has written and the other one reads, or
/// writes again, comes slowly, line by line; what goes past all caches comes as fast as memory can be read.
///
/// AMD Zen 4, each of two ranks copies to a buffer and folds what the other one has copied, streaming stores to `rep
/// movsb`: far 0.9 of the time at 1 KiB, 0.7 at 2 KiB, 0.45 at 4 KiB, 0.27 at 16 KiB, 0.2 from 64 KiB to 4 MiB, 0.9 at
/// 16 MiB; near 2.4 at 2 KiB, 1.8 at 4 KiB, 0.85 to 0.95 from 16 to 128 KiB, 1.1 at 256 KiB, 1.4 at 1 MiB. Zen 5, to
/// hand over what has just been written: far 1.0 at all lengths; near 2.9 at 4 and 16 KiB, 2.1 at 4 MiB.
class distance {
  public:
    /// From so many bytes on it matters.
    static constexpr std::size_t least_bytes = 2048;

    /// A line takes longer than this from a core that is far. AMD Zen 4: 10 to 30 ns from one under the same
    /// third-level cache, with which a barrier takes 40 to 90 ns, and 100 to 120 ns from another one, with which it
    /// takes 200 to 250. Elsewhere no core is far: all cores of an Intel Xeon share a third-level cache, a line takes
    /// 60 to 100 ns, and copies past all caches take longer (one with 480 MiB: messages there and back of 64 KiB 2.4
    /// times as long, of 2 MiB 3.7 and of 4 MiB 3.3 times; all_reduce of 4 MiB 1.5 times).
    [[nodiscard]] static std::chrono::nanoseconds usual_limit() noexcept {
        return ALLFOLD_STREAMS != 0 && has_groups_of_cores() ? std::chrono::nanoseconds(85)
                                                             : std::chrono::nanoseconds::max();
    }

    /// Whether so many bytes, which are for the peer and come next, are for a core that is far. `counter`: which the
    /// peer counts up with each message that it takes. `limit`: the latency of a line beyond which it is.
    [[nodiscard]] bool is_far(std::size_t bytes, const std::atomic<std::uint32_t>& counter,
                              std::chrono::nanoseconds limit) noexcept {
        if (bytes < least_bytes) return false;
        if (bytes >= unmeasured_) [[unlikely]]
            measure(counter, limit);
        else
            unmeasured_ -= bytes;
        return is_far_;
    }
    /// As it was found last.
    [[nodiscard]] bool was_far() const noexcept { return is_far_; }
    /// The counter has been read, and was this.
    void note(std::uint32_t counted) noexcept { last_read_ = counted; }
    /// The same, and it seemed to be far. After the first time two in a row have to agree: a line comes slowly as well
    /// where this thread is interrupted, or long operands have driven it out of all caches, and at once where it was
    /// fetched with its neighbour.
    void note(std::uint32_t counted, bool seems_far) noexcept {
        unmeasured_ = 0;
        if (std::exchange(last_read_, counted) == counted) return;  // the line may have been here
        const bool is_sure = !std::exchange(is_measured_, true) || seemed_far_ == seems_far;
        seemed_far_ = seems_far;
        if (!is_sure) return;
        is_far_ = seems_far;
        unmeasured_ = bytes_between;
    }

  private:
    static constexpr std::size_t bytes_between = std::size_t{512} << 10;  // measurements, which take about 0.2 us

    [[gnu::cold, gnu::noinline]] void measure(const std::atomic<std::uint32_t>& counter,
                                              std::chrono::nanoseconds limit) noexcept {
        using clock = std::chrono::steady_clock;
        const clock::time_point before = clock::now(), begin = clock::now();
        const std::uint32_t counted = counter.load(std::memory_order_acquire);
        const clock::time_point end = clock::now();
        note(counted, (end - begin) - (begin - before) > limit);  // without what it takes to look at the clock
    }

    std::size_t unmeasured_ = 0;  // bytes to go without
    std::uint32_t last_read_ = 0;
    bool is_measured_ = false;
    bool seemed_far_ = false;
    bool is_far_ = false;
};

}  // namespace allfold::detail
