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
#include <vector>

#include "allfold/error.hpp"

/// @file
/// Ends the process when an explored rank does not give back control: it waits for something that no other rank can do
/// meanwhile, since all share one thread. Nothing less helps, because nobody can make that rank return.

namespace allfold::detail {

/// `Call` represents a call of a rank, and is cheap to copy; text_of(call, number) describes it.
template <class Call>
class step_watch {
  public:
    /// 0, or more than a clock can count: nothing is watched.
    step_watch(double seconds, int ranks) : limit_(seconds), ranks_(ranks) {
        constexpr double never = 1e9;  // 30 years; 300 years are too many nanoseconds
        if (seconds > 0 && seconds < never) watcher_ = std::thread([this] { watch(); });
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

    /// A rank begins a step. `schedule` stays unchanged until it gives back control.
    void begin(int rank, const std::string* schedule) {
        if (!watcher_.joinable()) return;
        const std::lock_guard lock(mutex_);
        ++steps_;
        rank_ = rank;
        schedule_ = schedule;
    }
    /// No code of the program is running.
    void end() {
        if (!watcher_.joinable()) return;
        const std::lock_guard lock(mutex_);
        ++steps_;
        rank_ = -1;
    }
    /// An execution begins.
    void forget_calls() {
        const std::lock_guard lock(mutex_);
        latest_.clear();
    }
    /// The running rank makes its call number `number`.
    void note_call(const Call& call, std::size_t number) {
        if (!watcher_.joinable()) return;
        const std::lock_guard lock(mutex_);
        const auto rank = static_cast<std::size_t>(rank_);
        if (rank_ < 0) return;
        if (latest_.size() <= rank) latest_.resize(rank + 1);
        latest_[rank] = {call, number};
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
    struct noted {
        Call call;
        std::size_t number = 0;
    };
    [[nodiscard]] std::string latest_call() const {
        const auto rank = static_cast<std::size_t>(rank_);
        const bool has_called = rank < latest_.size() && latest_[rank].number != 0;
        return has_called ? text_of(latest_[rank].call, latest_[rank].number) : "none";
    }
    [[noreturn]] void stop() const {
        const std::string seconds = std::to_string(limit_);
        const std::string who = text({"allfold: explore: rank ", rank_, " has not come back for ",
                                      seconds.substr(0, seconds.find('.') + 2), " s (explore_options::step_seconds)"});
        const std::string why = ": it waits for something other than a message, or computes forever. Its latest call: ";
        std::fputs((who + why + latest_call() + text({". Schedule: ", ranks_, ":", *schedule_, "\n"})).c_str(), stderr);
        std::abort();
    }

    double limit_;
    int ranks_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::uint64_t steps_ = 0;
    int rank_ = -1;
    const std::string* schedule_ = nullptr;
    std::vector<noted> latest_;  // the latest call of each rank
    bool is_over_ = false;
    std::thread watcher_;
};

}  // namespace allfold::detail
