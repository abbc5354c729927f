// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
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

/// Those that a thread has made. Whatever it waits for, it lets them answer, since what it waits for may depend on the
/// ranks that have asked.
class answerers_of_thread : public allfold::detail::per_thread<answerers_of_thread> {
  public:
    /// From now on they answer at least every `interval`.
    static void add(const std::shared_ptr<answerer>& made, std::chrono::milliseconds interval) {
        answerers_of_thread& all = mine();
        all.interval_ = std::min(all.interval_, interval);
        std::erase_if(all.made_, [](const auto& each) { return each.expired(); });
        all.made_.push_back(made);
    }
    /// Lets them answer, unless they have done so a moment ago.
    static void poll() {
        if (of_this_thread != nullptr) poll(clock::now());
    }
    static void poll(std::chrono::steady_clock::time_point now) {
        if (of_this_thread == nullptr || now < of_this_thread->due_) return;
        of_this_thread->due_ = now + of_this_thread->interval_;
        for (const auto& each : of_this_thread->made_)
            if (const auto living = each.lock()) living->poll();
    }
    void retire() noexcept { made_.clear(); }

  private:
    using clock = std::chrono::steady_clock;

    std::vector<std::weak_ptr<answerer>> made_;
    std::chrono::milliseconds interval_{100};
    clock::time_point due_{};
};

}  // namespace allfold::mpi::detail
