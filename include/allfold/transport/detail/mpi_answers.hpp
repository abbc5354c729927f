// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
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

/// A thread that uses communicators.
struct attending_thread {
    std::uint64_t number = 0;  // never that of another one, not even of one that has ended
    std::chrono::milliseconds interval{100};
    std::chrono::steady_clock::time_point due{};
};

/// Lets a communicator answer while the thread that uses it waits for something else.
class attendance {
  public:
    using clock = std::chrono::steady_clock;

    attendance(answerer& answers, std::chrono::milliseconds interval) : answers_(answers), interval_(interval) {
        const std::lock_guard lock(mutex_of_all);
        all().push_back(this);
    }
    attendance(const attendance&) = delete;
    attendance& operator=(const attendance&) = delete;
    ~attendance() { end(); }

    /// To be called first in whatever uses the communicator: from now on it answers on this thread.
    [[gnu::always_inline]] void take_over() noexcept {
        if (thread_ != of_this_thread.number || thread_ == 0) [[unlikely]]
            move_here();
    }
    /// The communicator answers no more.
    void end() noexcept {
        const std::lock_guard lock(mutex_of_all);
        std::erase(all(), this);
    }

    /// Lets those that this thread uses answer, unless they have done so a moment ago.
    static void poll(clock::time_point now) {
        if (of_this_thread.number == 0 || now < of_this_thread.due) return;
        of_this_thread.due = now + of_this_thread.interval;
        const std::lock_guard lock(mutex_of_all);  // another thread that takes one over waits until it has answered
        for (attendance* const each : all())
            if (each->thread_ == of_this_thread.number) each->answers_.poll();
    }

  private:
    [[gnu::noinline, gnu::cold]] void move_here() noexcept {
        static std::uint64_t threads = 0;
        const std::lock_guard lock(mutex_of_all);
        if (of_this_thread.number == 0) of_this_thread.number = ++threads;
        of_this_thread.interval = std::min(of_this_thread.interval, interval_);
        thread_ = of_this_thread.number;
    }
    [[nodiscard]] static std::vector<attendance*>& all() {
        static auto* const made = new std::vector<attendance*>;  // outlives communicators that are global objects
        return *made;
    }

    static inline std::mutex mutex_of_all;
    static inline constinit thread_local attending_thread of_this_thread{};

    answerer& answers_;
    std::chrono::milliseconds interval_;
    std::uint64_t thread_ = 0;
};

/// Those that a thread has made. Whatever it waits for, it lets them answer, since what it waits for may depend on the
/// ranks that have asked.
class answerers_of_thread : public allfold::detail::per_thread<answerers_of_thread> {
  public:
    using clock = std::chrono::steady_clock;

    /// From now on they answer at least every `interval`.
    static void add(const std::shared_ptr<answerer>& made, std::chrono::milliseconds interval) {
        answerers_of_thread& all = mine();
        all.interval_ = std::min(all.interval_, interval);
        std::erase_if(all.made_, [](const auto& each) { return each.expired(); });
        all.made_.push_back(made);
    }
    /// Lets them and the communicators that this thread uses answer, unless they have done so a moment ago.
    static void poll(clock::time_point now = clock::now()) {
        attendance::poll(now);
        if (of_this_thread == nullptr || now < of_this_thread->due_) return;
        of_this_thread->due_ = now + of_this_thread->interval_;
        for (const auto& each : of_this_thread->made_)
            if (const auto living = each.lock()) living->poll();
    }
    void retire() noexcept { made_.clear(); }

  private:
    std::vector<std::weak_ptr<answerer>> made_;
    std::chrono::milliseconds interval_{100};
    clock::time_point due_{};
};

}  // namespace allfold::mpi::detail
