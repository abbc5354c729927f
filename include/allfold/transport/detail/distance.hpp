// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "allfold/transport/detail/cache_size.hpp"
#include "allfold/transport/detail/groups_of_cores.hpp"
#include "allfold/transport/detail/stream.hpp"

/// @file
/// How far away the core of a peer is.

namespace allfold::detail {

/// Whose core counts as far, and for which messages.
struct far_limits {
    std::chrono::nanoseconds latency;  // a core is far if a line takes longer than this to arrive from it
    std::size_t max_bytes;             // for longer messages no core is
    std::size_t min_streamed;          // messages for it that are as long are copied with streaming stores

    far_limits(std::chrono::nanoseconds line_takes_longer, std::size_t bytes = ~std::size_t{0},
               std::size_t streamed_from = 0) noexcept
        : latency(line_takes_longer), max_bytes(bytes), min_streamed(streamed_from) {}
    /// Of what exceeds the caches, most is in memory, wherever a core is; and counters are evicted too, so that their
    /// lines arrive slowly from a near core. P = 8 on two near cores, 4 MiB, with this limit: permute takes 0.7x the
    /// time, broadcast 0.75x to 0.9x, all_reduce 0.9x; on two distant cores all of them take as long as without it.
    [[nodiscard]] static std::size_t usual_max_bytes(int ranks) noexcept { return cache_share(ranks) / 2; }
};

/// Measures now and then how long a cache line takes to arrive from a peer's core: threads migrate, and a peer that
/// shares a third-level cache with this core may not do so later. Between cores that are far apart, data that one core
/// has written and the other one reads or overwrites arrives slowly, line by line; what is written with streaming
/// stores, bypassing all caches, arrives as fast as memory can be read. Up to Zen 4 this pays for all messages, on Zen
/// 5 only for long ones, and for operands that are staged before others read them.
///
/// Time with streaming stores relative to `rep movsb`. AMD Zen 4, each of two ranks copies to a buffer and folds what
/// the other one has copied: far apart 0.9x at 1 KiB, 0.7x at 2 KiB, 0.45x at 4 KiB, 0.27x at 16 KiB, 0.2x from 64 KiB
/// to 4 MiB, 0.9x at 16 MiB; nearby 2.4x at 2 KiB, 1.8x at 4 KiB, 0.85x to 0.95x from 16 to 128 KiB, 1.1x at 256 KiB,
/// 1.4x at 1 MiB. Zen 5, passing on data that has just been written: far apart 1.0x at all lengths; nearby 2.9x at 4
/// and 16 KiB, 2.1x at 4 MiB. Messages through buffers on Zen 5, far apart, with `rep movsb` relative to
/// streaming stores: a round trip of 2 KiB takes 0.62x the time, of 4 KiB 0.68x, of 16 KiB 0.9x; permute of 4 to 64 KiB
/// 0.87x; broadcast of 16 KiB and inclusive_scan of 16 KiB to 1 MiB 0.83x, all_reduce of 4 to 128 KiB 0.9x to 1.0x; but
/// permute of 256 KiB 1.1x, of 512 KiB to 4 MiB 1.1x to 1.4x, all_to_all of 1 to 4 MiB to each 1.2x.
class distance {
  public:
    /// Distance matters from this length on.
    static constexpr std::size_t min_bytes = 2048;

    /// From a core that is far away, a line takes longer than this. AMD Zen 4: 10 to 30 ns from a core under the same
    /// third-level cache, and a barrier with it 40 to 90 ns; 100 to 120 ns from a core under another one, and a barrier
    /// 200 to 250 ns. On other processors no core counts as far: all cores of an Intel Xeon share a third-level cache,
    /// a line takes 60 to 100 ns, and streaming stores are slower (on one with 480 MiB, round trips of 64 KiB take 2.4x
    /// the time, of 2 MiB 3.7x and of 4 MiB 3.3x; all_reduce of 4 MiB 1.5x).
    [[nodiscard]] static std::chrono::nanoseconds usual_limit() noexcept {
        return ALLFOLD_STREAMS != 0 && has_groups_of_cores() ? std::chrono::nanoseconds(85)
                                                             : std::chrono::nanoseconds::max();
    }

    [[nodiscard]] static bool matters(std::size_t bytes, const far_limits& limits) noexcept {
        return bytes >= min_bytes && bytes <= limits.max_bytes;
    }

    /// Whether the next `bytes` bytes for the peer are for a core that is far away. `counter`: incremented by the peer
    /// for each message that it takes.
    [[nodiscard]] bool is_far(std::size_t bytes, const std::atomic<std::uint32_t>& counter,
                              const far_limits& limits) noexcept {
        if (!matters(bytes, limits)) return false;
        if (bytes >= unmeasured_) [[unlikely]]
            measure(counter, limits.latency);
        else
            unmeasured_ -= bytes;
        return is_far_;
    }
    /// The latest result.
    [[nodiscard]] bool was_far() const noexcept { return is_far_; }
    /// Notes that the counter has been read, and its value.
    void note(std::uint32_t counted) noexcept { last_read_ = counted; }
    /// The same, and whether the peer seemed far. After the first measurement, a change needs two in a row that agree:
    /// a line is also slow to arrive if this thread is interrupted or long operands have evicted it from all caches,
    /// and fast if it was fetched along with its neighbour.
    void note(std::uint32_t counted, bool seems_far) noexcept {
        unmeasured_ = 0;
        if (std::exchange(last_read_, counted) == counted) return;  // the line may have been in this core's cache
        const bool is_sure = !std::exchange(is_measured_, true) || seemed_far_ == seems_far;
        seemed_far_ = seems_far;
        if (!is_sure) return;
        is_far_ = seems_far;
        unmeasured_ = bytes_between;
    }

  private:
    static constexpr std::size_t bytes_between = std::size_t{512} << 10;  // between measurements of about 0.2 us each

    [[gnu::cold, gnu::noinline]] void measure(const std::atomic<std::uint32_t>& counter,
                                              std::chrono::nanoseconds limit) noexcept {
        using clock = std::chrono::steady_clock;
        // Long operands evict the clock from all caches as well: the first reading of it takes as long as a line from
        // far away, so that every core seemed near.
        static_cast<void>(clock::now());
        const clock::time_point before = clock::now(), begin = clock::now();
        const std::uint32_t counted = counter.load(std::memory_order_acquire);
        const clock::time_point end = clock::now();
        note(counted, (end - begin) - (begin - before) > limit);  // minus the time that reading the clock takes
    }

    std::size_t unmeasured_ = 0;  // left until the next measurement
    std::uint32_t last_read_ = 0;
    bool is_measured_ = false;
    bool seemed_far_ = false;
    bool is_far_ = false;
};

}  // namespace allfold::detail
