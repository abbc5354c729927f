// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "allfold/transport/detail/doorbell.hpp"

/// @file
/// Each thread has one bell, on which all news for it is rung: whatever it waits for, it sleeps at one door.

namespace allfold::detail {

class bell_pull;

/// A thread's bell, and the pulls that lead to it. A pull shows whether the thread sleeps, so that in most cases to
/// ring is to look at one flag.
class thread_bell {
  public:
    template <class News>
    void sleep(News news, doorbell::time_point until) {
        const struct shown_asleep {
            explicit shown_asleep(thread_bell& shown) : bell(shown) { bell.show(true); }
            ~shown_asleep() { bell.show(false); }
            thread_bell& bell;
        } shown(*this);
        bell_.sleep(news, until);
    }
    void ring() noexcept { bell_.ring(); }

  private:
    friend class bell_pull;
    void show(bool asleep) noexcept;

    doorbell bell_;
    std::mutex mutex_;
    std::vector<bell_pull*> pulls_;
};

/// Null as long as this thread has not asked for one.
inline constinit thread_local thread_bell* bell_of_this_thread = nullptr;

[[nodiscard]] inline std::shared_ptr<thread_bell> own_bell() {
    thread_local const auto bell = std::make_shared<thread_bell>();
    bell_of_this_thread = bell.get();
    return bell;
}

/// How one rank is called: by the bell of the thread that uses it, which may be another one later. Whoever rings late
/// may still ring at the old door; therefore bells live as long as this.
class bell_pull {
  public:
    bell_pull() = default;
    bell_pull(const bell_pull&) = delete;
    bell_pull& operator=(const bell_pull&) = delete;
    ~bell_pull() { leave(); }

    /// After making news visible.
    void ring() const noexcept {
        fences_.fence_of_ringer();
        if (asleep_.load(std::memory_order_relaxed)) [[unlikely]]
            wake();
    }
    /// Called by the thread that uses the rank, before it sleeps.
    void lead_to_this_thread() {
        if (bell_.load(std::memory_order_relaxed) != bell_of_this_thread || bell_of_this_thread == nullptr) [[unlikely]]
            lead_to(own_bell());
    }

  private:
    friend class thread_bell;

    [[gnu::cold]] void wake() const noexcept {
        if (thread_bell* const bell = bell_.load(std::memory_order_acquire)) bell->ring();
    }
    [[gnu::cold]] void lead_to(std::shared_ptr<thread_bell>&& bell) {
        leave();
        thread_bell& now = *bell;
        bool is_kept = false;
        for (const auto& each : kept_) is_kept = is_kept || each == bell;
        if (!is_kept) kept_.push_back(std::move(bell));
        {
            const std::lock_guard lock(now.mutex_);
            now.pulls_.push_back(this);
        }
        bell_.store(&now, std::memory_order_release);
    }
    void leave() noexcept {
        thread_bell* const old = bell_.exchange(nullptr);
        if (old == nullptr) return;
        const std::lock_guard lock(old->mutex_);
        std::erase(old->pulls_, this);
        asleep_.store(false, std::memory_order_relaxed);
    }

    std::atomic<bool> asleep_{false};
    std::atomic<thread_bell*> bell_{nullptr};
    doorbell fences_;  // nobody sleeps here
    std::vector<std::shared_ptr<thread_bell>> kept_;
};

inline void thread_bell::show(bool asleep) noexcept {
    const std::lock_guard lock(mutex_);
    for (bell_pull* each : pulls_) each->asleep_.store(asleep, std::memory_order_relaxed);
}

}  // namespace allfold::detail
