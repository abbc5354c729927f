// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <mutex>
#include <utility>

#include "allfold/transport/detail/doorbell.hpp"
#include "allfold/transport/detail/per_thread.hpp"

/// @file
/// Each thread has one bell, which is rung for all its news: whatever it waits for, it sleeps in one place.

namespace allfold::detail {

class bell_pull;

/// A thread's bell, and the pulls that lead to it. A pull shows whether the thread is asleep, so that ringing is
/// usually no more than a look at one flag.
class thread_bell : public per_thread<thread_bell> {
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
    /// A ring that comes late wakes the next thread that gets this bell, needlessly.
    static void retire() noexcept {}

  private:
    friend class bell_pull;
    void show(bool asleep) noexcept;

    doorbell bell_;
    std::mutex mutex_;
    bell_pull* pulls_ = nullptr;  // head of a list
};

/// How to reach one rank: through the bell of the thread that uses it, which may be a different thread later.
class bell_pull {
  public:
    bell_pull() = default;
    bell_pull(const bell_pull&) = delete;
    bell_pull& operator=(const bell_pull&) = delete;
    ~bell_pull() { leave(); }

    /// Called after making news visible.
    [[gnu::always_inline]] void ring() const noexcept {
        fences_.fence_of_ringer();
        if (asleep_.load(std::memory_order_relaxed)) [[unlikely]]
            wake();
    }
    /// Called by the thread that uses the rank, before it sleeps.
    void bind_to_this_thread() {
        const thread_bell* const bound_to = bell_.load(std::memory_order_relaxed);
        if (bound_to != thread_bell::of_this_thread || bound_to == nullptr) [[unlikely]]
            bind_to(thread_bell::mine());
    }

  private:
    friend class thread_bell;

    [[gnu::cold]] void wake() const noexcept {
        if (thread_bell* const bell = bell_.load(std::memory_order_acquire)) bell->ring();
    }
    [[gnu::cold]] void bind_to(thread_bell& now) {
        leave();
        {
            const std::lock_guard lock(now.mutex_);
            next_ = std::exchange(now.pulls_, this);
        }
        bell_.store(&now, std::memory_order_release);
    }
    void leave() noexcept {
        thread_bell* const old = bell_.exchange(nullptr);
        if (old == nullptr) return;
        const std::lock_guard lock(old->mutex_);
        bell_pull** link = &old->pulls_;
        while (*link != this) link = &(*link)->next_;
        *link = next_;
        asleep_.store(false, std::memory_order_relaxed);
    }

    std::atomic<bool> asleep_{false};
    std::atomic<thread_bell*> bell_{nullptr};
    doorbell fences_;            // only for its fence: nobody sleeps on it
    bell_pull* next_ = nullptr;  // in the list of pulls that lead to the same bell; guarded by that bell's mutex
};

inline void thread_bell::show(bool asleep) noexcept {
    const std::lock_guard lock(mutex_);
    for (bell_pull* each = pulls_; each != nullptr; each = each->next_)
        each->asleep_.store(asleep, std::memory_order_relaxed);
}

}  // namespace allfold::detail
