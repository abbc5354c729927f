// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace test {

/// Aborts the program with a message if it runs too long: a test that hangs fails, and says where.
class watchdog {
  public:
    explicit watchdog(std::string what, std::chrono::seconds limit = std::chrono::seconds(100))
        : what_(std::move(what)), thread_([this, limit] { watch(limit); }) {}
    watchdog(const watchdog&) = delete;
    watchdog& operator=(const watchdog&) = delete;
    ~watchdog() {
        {
            const std::lock_guard lock(mutex_);
            done_ = true;
        }
        changed_.notify_one();
        thread_.join();
    }

  private:
    void watch(std::chrono::seconds limit) {
        std::unique_lock lock(mutex_);
        if (changed_.wait_for(lock, limit, [this] { return done_; })) return;
        std::fprintf(stderr, "watchdog: after %d s still not done: %s\n", static_cast<int>(limit.count()),
                     what_.c_str());
        std::abort();
    }

    std::string what_;
    bool done_ = false;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::thread thread_;
};

}  // namespace test
