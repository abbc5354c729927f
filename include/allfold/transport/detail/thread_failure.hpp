// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <utility>

#include "allfold/error.hpp"
#include "allfold/transport/detail/cause.hpp"

/// @file
/// What has broken a group of threads: the first failure, and how the others are notified of it.

namespace allfold::detail {

class thread_failure {
  public:
    [[nodiscard]] bool has_happened(std::memory_order order = std::memory_order_acquire) const noexcept {
        return happened_.load(order);
    }
    /// The first one is kept; its rank may tell later what was not known yet.
    void report(int rank, cause&& why) {
        {
            const std::lock_guard lock(mutex_);
            if (culprit_ < 0 || (culprit_ == rank && !why_.is_known)) why_ = std::move(why);
            if (culprit_ < 0) culprit_ = rank;
        }
        news_.notify_all();
        happened_.store(true, std::memory_order_seq_cst);
    }
    /// Its rank; -1 where nothing has happened.
    [[nodiscard]] int culprit() {
        const std::lock_guard lock(mutex_);
        return culprit_;
    }
    /// What was thrown there; null where nobody knows.
    [[nodiscard]] std::exception_ptr thrown() {
        const std::lock_guard lock(mutex_);
        return why_.thrown;
    }

    /// Throws it on rank `rank`, which may wait for a moment if it `can_wait`: a rank that an exception unwinds knows
    /// which one only when it is caught, or has departed. That is soon; but it waits for all who use memory of its own.
    template <class HasDeparted>
    [[noreturn, gnu::cold]] void throw_on(int rank, int size, const char* during, bool can_wait,
                                          HasDeparted has_departed) {
        std::unique_lock lock(mutex_);
        if (can_wait && rank != culprit_)
            news_.wait_for(lock, std::chrono::milliseconds(200),
                           [&] { return why_.is_known || has_departed(culprit_); });
        const std::string place = text({during, ": rank ", rank, " of ", size, " stops: "});
        if (why_.code == errc::timeout) throw error(errc::timeout, place + why_.why);
        throw error(errc::peer_failed, text({place, "rank ", culprit_, " failed: ", why_.why}));
    }
    /// A rank has departed: nobody shall wait for what it has to tell.
    void stop_waiting() noexcept {
        if (!has_happened()) return;
        mutex_.lock();  // nobody is between asking and waiting
        mutex_.unlock();
        news_.notify_all();
    }

  private:
    std::atomic<bool> happened_{false};
    std::mutex mutex_;
    std::condition_variable news_;
    int culprit_ = -1;
    cause why_;
};

}  // namespace allfold::detail
