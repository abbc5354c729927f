// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "bench/measure.hpp"

/// @file
/// Where the first two CPUs are at the moment, relative to each other. A hypervisor moves them without notice, and
/// figures from two placements, which differ up to fivefold, must not be compared.

namespace bench {
namespace detail {

/// Two threads, each on a CPU of its own, that meet again and again.
class pair {
  public:
    /// Seconds per exchange: both write a line, and both read the other's.
    [[nodiscard]] double exchange(int self) {
        constexpr int meetings = 300;
        double best = 1;
        for (int repeat = 0; repeat < 9; ++repeat) {
            meet(self);
            const double start = now();
            for (int i = 0; i < meetings; ++i) meet(self);
            best = std::min(best, (now() - start) / meetings);
        }
        return best;
    }

  private:
    struct alignas(128) line {
        std::atomic<std::uint32_t> count{0};
    };

    void meet(int self) {
        line& mine = lines_[static_cast<std::size_t>(self)];
        const line& other = lines_[static_cast<std::size_t>(1 - self)];
        const std::uint32_t count = mine.count.load(std::memory_order_relaxed) + 1;
        mine.count.store(count, std::memory_order_release);
        for (int i = 0; other.count.load(std::memory_order_acquire) < count; ++i)
            i < 10000 ? relax() : std::this_thread::yield();
    }

    std::array<line, 2> lines_;
};

}  // namespace detail

/// The placement, judged by the time of an exchange: "smt" for two threads of one core, "near" for two cores near each
/// other, "far" otherwise; "one" if there is a single CPU.
[[nodiscard]] inline const char* placement() {
    if (processors().size() < 2) return "one";
    detail::pair pair;
    double seconds = 0;
    std::thread second([&] {
        pin(1);
        static_cast<void>(pair.exchange(1));
    });
    std::thread first([&] {
        pin(0);
        seconds = pair.exchange(0);
    });
    first.join();
    second.join();
    return seconds < 32e-9 ? "smt" : seconds < 130e-9 ? "near" : "far";
}

}  // namespace bench
