// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "allfold/error.hpp"
#include "allfold/transport/detail/cause.hpp"
#include "allfold/transport/detail/rank_names.hpp"

/// @file
/// What has broken a group of threads: the first failure, and how the others are notified of it.

namespace allfold::detail {

class thread_failure {
  public:
    [[nodiscard]] bool has_happened(std::memory_order order = std::memory_order_acquire) const noexcept {
        return happened_.load(order);
    }
    /// Keeps the first failure; its rank may report later what was not known then.
    void report(int rank, cause&& why) {
        {
            const std::lock_guard lock(mutex_);
            if (culprit_ < 0 || (culprit_ == rank && !why_.is_known)) why_ = std::move(why);
            if (culprit_ < 0) culprit_ = rank;
        }
        happened_.store(true, std::memory_order_seq_cst);
    }
    /// The rank that failed first; -1 if none has.
    [[nodiscard]] int culprit() {
        const std::lock_guard lock(mutex_);
        return culprit_;
    }
    /// What that rank threw; null if unknown.
    [[nodiscard]] std::exception_ptr thrown() {
        const std::lock_guard lock(mutex_);
        return why_.thrown;
    }

    /// Throws the failure on rank `rank`. If that `can_wait`, it first waits for a moment until the cause is known: a
    /// rank that an exception unwinds learns which one only when it is caught, or departs without. Both happen soon;
    /// but the failed rank itself waits for every rank that uses its memory, which therefore cannot wait.
    template <class HasDeparted>
    [[noreturn, gnu::cold]] void throw_on(int rank, const rank_names& name, const char* during, bool can_wait,
                                          HasDeparted has_departed) {
        for (int ms = can_wait ? 200 : 0; ms > 0 && !has_final_cause(rank, has_departed); --ms)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        const std::lock_guard lock(mutex_);
        const std::string place = text({during, ": aborted on rank ", name(rank), " of ", name.size(), ": "});
        if (why_.code == errc::timeout) throw error(errc::timeout, place + why_.why);
        throw error(errc::peer_failed, text({place, "rank ", name(culprit_), " failed: ", why_.why}));
    }

  private:
    /// Whether the rank that failed first has nothing more to report.
    template <class HasDeparted>
    [[nodiscard]] bool has_final_cause(int rank, HasDeparted has_departed) {
        const std::lock_guard lock(mutex_);
        return why_.is_known || rank == culprit_ || has_departed(culprit_);
    }

    std::atomic<bool> happened_{false};
    std::mutex mutex_;
    int culprit_ = -1;
    cause why_;
};

}  // namespace allfold::detail
