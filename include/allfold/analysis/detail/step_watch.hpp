// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

#include "allfold/error.hpp"

/// @file
/// Ends the process when a rank that is explored does not come back: it waits for something that no other rank, of the
/// same thread, can do meanwhile. Nothing less helps, for nobody can make it return.

namespace allfold::detail {

class step_watch {
  public:
    /// 0: nobody watches.
    explicit step_watch(double seconds) : limit_(seconds) {
        if (seconds > 0) watcher_ = std::thread([this] { watch(); });
    }
    step_watch(const step_watch&) = delete;
    step_watch& operator=(const step_watch&) = delete;
    ~step_watch() {
        if (!watcher_.joinable()) return;
        {
            const std::lock_guard lock(mutex_);
            is_over_ = true;
        }
        changed_.notify_one();
        watcher_.join();
    }

    /// `schedule` stays as it is until the rank comes back.
    void begin(int rank, const std::string* schedule) {
        if (!watcher_.joinable()) return;
        const std::lock_guard lock(mutex_);
        ++steps_;
        rank_ = rank;
        schedule_ = schedule;
    }
    void end() {
        if (!watcher_.joinable()) return;
        const std::lock_guard lock(mutex_);
        ++steps_;
        rank_ = -1;
    }
    /// The rank that runs makes a call; `describe()` says which when it is asked.
    template <class Describe>
    void note_call(Describe describe) {
        if (!watcher_.joinable()) return;
        const std::lock_guard lock(mutex_);
        call_ = describe();
    }

  private:
    void watch() {
        std::unique_lock lock(mutex_);
        for (std::uint64_t seen = 0; !is_over_;) {
            seen = steps_;
            const std::chrono::duration<double> limit(limit_);
            if (changed_.wait_for(lock, limit, [this] { return is_over_; })) return;
            if (steps_ == seen && rank_ >= 0) stop();
        }
    }
    [[noreturn]] void stop() const {
        std::fputs(text({"allfold: explore: rank ", rank_, " has not come back for ",
                         std::to_string(limit_).substr(0, std::to_string(limit_).find('.') + 2),
                         " s (explore_options::step_seconds): it waits for something that is not a message of its "
                         "communicators, or computes for ever. Its latest call: ",
                         call_.empty() ? "none" : call_, ". Schedule: ", *schedule_, "\n"})
                       .c_str(),
                   stderr);
        std::abort();
    }

    double limit_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::uint64_t steps_ = 0;
    int rank_ = -1;
    const std::string* schedule_ = nullptr;
    std::string call_;
    bool is_over_ = false;
    std::thread watcher_;
};

}  // namespace allfold::detail
