// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "allfold/transport/detail/doorbell.hpp"

/// @file
/// Each thread has one bell, on which all news for it is rung: whatever it waits for, it sleeps at one door.

namespace allfold::detail {

/// Null as long as this thread has not asked for one.
inline constinit thread_local doorbell* bell_of_this_thread = nullptr;

[[nodiscard]] inline std::shared_ptr<doorbell> own_bell() {
    thread_local const auto bell = std::make_shared<doorbell>();
    bell_of_this_thread = bell.get();
    return bell;
}

/// How one rank is called: by the bell of the thread that uses it, which may be another one later. Whoever rings late
/// may still ring at the old door; therefore bells live as long as this.
class bell_pull {
  public:
    /// After making news visible.
    void ring() const noexcept {
        if (doorbell* const bell = bell_.load(std::memory_order_acquire)) bell->ring();
    }
    /// Called by the thread that uses the rank, before it sleeps.
    void lead_to_this_thread() {
        if (bell_.load(std::memory_order_relaxed) != bell_of_this_thread || bell_of_this_thread == nullptr) [[unlikely]]
            lead_to(own_bell());
    }

  private:
    [[gnu::cold]] void lead_to(std::shared_ptr<doorbell>&& bell) {
        doorbell* const pulled = bell.get();
        bool is_kept = false;
        for (const auto& each : kept_) is_kept = is_kept || each == bell;
        if (!is_kept) kept_.push_back(std::move(bell));
        bell_.store(pulled, std::memory_order_release);
    }

    std::atomic<doorbell*> bell_{nullptr};
    std::vector<std::shared_ptr<doorbell>> kept_;
};

}  // namespace allfold::detail
