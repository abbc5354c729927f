// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#if defined(__linux__) && !defined(ALLFOLD_PORTABLE_DOORBELL)
#define ALLFOLD_FUTEX_DOORBELL 1
#include <ctime>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>
#else
#define ALLFOLD_FUTEX_DOORBELL 0
#include <condition_variable>
#include <mutex>
#endif

/// @file
/// How a thread of this process sleeps until another one has news for it.

namespace allfold::detail {

/// A short pause in a spin loop.
inline void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

/// One sleeper, many ringers. The sleeper announces that it will sleep, checks once more for news, and sleeps; a ringer
/// makes its news visible and then checks for a sleeper. So that neither misses the other, both sides need a full fence
/// between the two steps. `membarrier` lets the sleeper, which has time, issue the fence on behalf of everybody, so
/// that ringing costs one load.
class doorbell {
  public:
    using time_point = std::chrono::steady_clock::time_point;

    /// Called after making news visible: wakes the owner if it is asleep.
    [[gnu::always_inline]] void ring() noexcept {
        fence_of_ringer();
        if (sleeping_.load(std::memory_order_relaxed) != 0) [[unlikely]]
            wake();
    }

    /// Sleeps until rung or until `until`, unless `news()` finds something after the sleep has been announced.
    template <class News>
    void sleep(News news, time_point until) {
        sleeping_.store(1, std::memory_order_relaxed);
        fence_of_sleeper();
        try {
            if (!news()) block(until);
        } catch (...) {
            sleeping_.store(0, std::memory_order_relaxed);
            throw;
        }
        sleeping_.store(0, std::memory_order_relaxed);
    }

    /// The fence between making news visible and checking for a sleeper; also for callers that check a flag of their
    /// own first.
    [[gnu::always_inline]] void fence_of_ringer() const noexcept {
#if ALLFOLD_FUTEX_DOORBELL
        if (membarrier_) [[likely]]
            return std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
        std::atomic_thread_fence(std::memory_order_seq_cst);
    }

  private:
#if ALLFOLD_FUTEX_DOORBELL
    [[nodiscard]] static bool has_membarrier() noexcept {
        static const bool registered = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
        return registered;
    }
    void fence_of_sleeper() noexcept {
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (membarrier_) syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    }
    [[gnu::cold]] void wake() noexcept {
        if (sleeping_.exchange(0) == 0) return;
        syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&sleeping_), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    }
    void block(time_point until) noexcept {
        using namespace std::chrono;
        const auto left = duration_cast<nanoseconds>(until - steady_clock::now()).count();
        if (left <= 0) return;
        const timespec time{static_cast<std::time_t>(left / 1000000000), static_cast<long>(left % 1000000000)};
        syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&sleeping_), FUTEX_WAIT_PRIVATE, 1, &time, nullptr, 0);
    }

    std::atomic<std::uint32_t> sleeping_{0};
    const bool membarrier_ = has_membarrier();
#else
    static void fence_of_sleeper() noexcept { std::atomic_thread_fence(std::memory_order_seq_cst); }
    void wake() {
        const std::lock_guard lock(mutex_);
        sleeping_.store(0, std::memory_order_relaxed);
        rung_.notify_one();
    }
    void block(time_point until) {
        std::unique_lock lock(mutex_);
        rung_.wait_until(lock, until, [this] { return sleeping_.load(std::memory_order_relaxed) == 0; });
    }

    std::atomic<std::uint32_t> sleeping_{0};
    std::mutex mutex_;
    std::condition_variable rung_;
#endif
};

}  // namespace allfold::detail
