// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>

#include "examples/common/files.hpp"

/// @file
/// The progress of the work, as a bar on standard error if that is a terminal.

namespace attention {

/// Work that is done in steps, by several threads.
class work {
  public:
    work(const char* name, std::size_t steps) : name_(name), steps_(std::max<std::size_t>(steps, 1)) {}

    void step(std::size_t n) noexcept { done_.fetch_add(n, std::memory_order_relaxed); }
    [[nodiscard]] const char* name() const noexcept { return name_; }
    [[nodiscard]] std::size_t percent() const noexcept {
        return std::min<std::size_t>(100 * done_.load(std::memory_order_relaxed) / steps_, 100);
    }

  private:
    const char* name_;
    std::size_t steps_;
    std::atomic<std::size_t> done_{0};
};

/// The long parts of the program, one after another. While this object lives, the bar shows the first part that is not
/// done.
class progress {
  public:
    work local, check;

    /// The numbers of steps: keys of all heads, and rows of the reference, of which there may be none.
    progress(std::size_t keys, std::size_t rows, bool shown)
        : local("local attention", keys), check("float64 reference", rows), is_checked_(rows != 0) {
        if (!shown || ::isatty(STDERR_FILENO) == 0) return;
        show(bar());
        drawer_ = std::thread([this] { draw(); });
    }
    progress(const progress&) = delete;
    progress& operator=(const progress&) = delete;
    ~progress() {
        if (!drawer_.joinable()) return;
        {
            const std::lock_guard lock(mutex_);
            over_ = true;
        }
        wake_.notify_one();
        drawer_.join();
    }

  private:
    void draw() {
        std::unique_lock lock(mutex_);
        while (!wake_.wait_for(lock, std::chrono::milliseconds(100), [&] { return over_; }))
            show("\r" + bar() + clear_to_end);
        show(std::string("\r") + clear_to_end);
    }
    [[nodiscard]] std::string bar() const {
        constexpr std::size_t width = 40;
        const work& current = local.percent() < 100 || !is_checked_ ? local : check;
        std::string line = current.name();
        line.resize(18, ' ');
        const std::size_t full = current.percent() * width / 100;
        return line + "[" + std::string(full, '#') + std::string(width - full, '.') + "] " +
               std::to_string(current.percent()) + " %";
    }
    static void show(std::string_view text) {
        static_cast<void>(files::detail::write_all(STDERR_FILENO, {text}));  // a lost bar is no loss
    }

    bool is_checked_;
    static constexpr const char* clear_to_end = "\033[K";
    std::mutex mutex_;
    std::condition_variable wake_;
    bool over_ = false;
    std::thread drawer_;
};

}  // namespace attention
