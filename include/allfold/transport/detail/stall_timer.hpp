// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>

#include "allfold/transport/communicator.hpp"

/// @file
/// How long a rank has been waiting for the same thing.

namespace allfold::detail {

[[nodiscard]] inline bool is_same_wait(const waiting& a, const waiting& b) noexcept {
    return a.peer == b.peer && a.on == b.on && a.round == b.round;
}

/// How long this rank has been stuck, and where.
class stall_timer {
  public:
    using clock = std::chrono::steady_clock;

    void begin() noexcept { *this = {}; }
    /// Whether it is time to notify the peer: first after `notice`, then at intervals of ten times `notice`.
    [[nodiscard]] bool is_notice_due(const waiting& where, clock::time_point now, std::chrono::milliseconds notice) {
        if (!detail::is_same_wait(where, where_)) {
            where_ = where;
            since_ = now;
            next_notice_ = now + notice;
        }
        if (now < next_notice_) return false;
        next_notice_ = now + 10 * notice;
        return true;
    }
    [[nodiscard]] clock::time_point since() const noexcept { return since_; }

  private:
    waiting where_{};
    clock::time_point since_{}, next_notice_{};
};

/// Whether a wait ends although its work is not done, to be continued by another one. Polls are counted over all of
/// them, so that a rank looks around however short they are.
template <class Work>
[[nodiscard]] bool goes_on(const Work& work) {
    if constexpr (requires { work.is_done(); })
        return !work.is_done();
    else
        return false;
}

/// Which of several things in flight a rank looks after while it waits for something else. It takes a while to find out
/// that waiting is in vain, so this is one of them at a time, until it makes progress.
class looked_after {
  public:
    using clock = std::chrono::steady_clock;

    [[nodiscard]] bool is_this(const waiting& where, clock::time_point now,
                               std::chrono::milliseconds patience) noexcept {
        if (where.peer < 0 || (!detail::is_same_wait(where, where_) && now - seen_ < patience)) return false;
        where_ = where;
        seen_ = now;
        return true;
    }

  private:
    waiting where_{};
    clock::time_point seen_{};
};

}  // namespace allfold::detail
