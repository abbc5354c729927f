// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "allfold/transport/detail/per_thread.hpp"

/// @file
/// Whom a rank answers while it waits for something else.

namespace allfold::mpi::detail {

/// Something that other ranks may ask whether this one still takes part.
class answerer {
  public:
    answerer() = default;
    answerer(const answerer&) = delete;
    answerer& operator=(const answerer&) = delete;
    virtual ~answerer() = default;
    /// Receives what they have asked, and answers.
    virtual void poll() = 0;
};

/// Lets a communicator answer while the thread that uses it waits for something else.
class attendance {
  public:
    inline attendance(answerer& answers, std::chrono::milliseconds interval);
    attendance(const attendance&) = delete;
    attendance& operator=(const attendance&) = delete;
    ~attendance() { end(); }

    /// To be called first in whatever uses the communicator: from now on it answers on this thread.
    [[gnu::always_inline]] inline void take_over() noexcept;
    /// The communicator answers no more.
    inline void end() noexcept;

  private:
    friend class answerers_of_thread;
    [[gnu::cold]] inline void move_here() noexcept;

    answerer& answers_;
    std::chrono::milliseconds interval_;
    const class answerers_of_thread* thread_ = nullptr;  // null once that has ended
};

/// Those that a thread uses or has made. Whatever it waits for, it lets them answer, since what it waits for may depend
/// on the ranks that have asked. For those of threads that have ended, any other one does so.
class answerers_of_thread : public allfold::detail::per_thread<answerers_of_thread> {
  public:
    using clock = std::chrono::steady_clock;

    /// From now on they answer at least every `interval`.
    static void add(const std::shared_ptr<answerer>& made, std::chrono::milliseconds interval) {
        answerers_of_thread& own = mine();
        own.interval_ = std::min(own.interval_, interval);
        forget_expired(own.made_);
        own.made_.push_back(made);
    }
    /// Lets them answer, unless they have done so a moment ago.
    static void poll(clock::time_point now = clock::now()) {
        answerers_of_thread* const own = of_this_thread;
        if (own == nullptr || now < own->due_) return;
        own->due_ = now + own->interval_;
        poll(own->made_);
        shared& all = all_threads();
        const std::lock_guard lock(all.mutex);  // another thread that takes one over waits until it has answered
        for (attendance* const each : all.used)
            if (each->thread_ == own || each->thread_ == nullptr) each->answers_.poll();
        poll(all.left_behind);
    }
    void retire() noexcept {
        shared& all = all_threads();
        const std::lock_guard lock(all.mutex);
        for (attendance* const each : all.used)
            if (each->thread_ == this) each->thread_ = nullptr;
        forget_expired(all.left_behind);
        try {
            all.left_behind.insert(all.left_behind.end(), made_.begin(), made_.end());
        } catch (const std::bad_alloc&) {  // their teams are not answered for any more
        }
        made_.clear();
    }

  private:
    friend class attendance;
    using several = std::vector<std::weak_ptr<answerer>>;
    struct shared {
        std::mutex mutex;
        std::vector<attendance*> used;
        several left_behind;  // made by threads that have ended
    };
    [[nodiscard]] static shared& all_threads() {
        static auto* const all = new shared;  // outlives communicators that are global objects
        return *all;
    }
    static void forget_expired(several& from) {
        std::erase_if(from, [](const auto& each) { return each.expired(); });
    }
    static void poll(const several& these) {
        for (const auto& each : these)
            if (const auto living = each.lock()) living->poll();
    }

    several made_;
    std::chrono::milliseconds interval_{100};
    clock::time_point due_{};
};

inline attendance::attendance(answerer& answers, std::chrono::milliseconds interval)
    : answers_(answers), interval_(interval) {
    move_here();
    answerers_of_thread::shared& all = answerers_of_thread::all_threads();
    const std::lock_guard lock(all.mutex);
    all.used.push_back(this);
}

inline void attendance::take_over() noexcept {
    if (thread_ == nullptr || thread_ != answerers_of_thread::of_this_thread) [[unlikely]]
        move_here();
}

inline void attendance::end() noexcept {
    answerers_of_thread::shared& all = answerers_of_thread::all_threads();
    const std::lock_guard lock(all.mutex);
    std::erase(all.used, this);
}

inline void attendance::move_here() noexcept {
    answerers_of_thread& own = answerers_of_thread::mine();
    const std::lock_guard lock(answerers_of_thread::all_threads().mutex);
    own.interval_ = std::min(own.interval_, interval_);
    thread_ = &own;
}

}  // namespace allfold::mpi::detail
