// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/channel.hpp"
#include "allfold/transport/detail/thread_bell.hpp"

/// @file
/// What the threads of a group tell about themselves: to wake, to report, to explain.

namespace allfold::detail {

/// What the other ranks may look up of one rank.
struct rank_board {
    alignas(line_bytes) bell_pull bell;
    std::atomic<bool> is_given{false};  // its communicator has been made
    std::atomic<bool> departed{false};
    std::atomic<bool> reads_no_more{false};            // it has departed, and looked at what others have lent to it
    std::atomic<bool> is_called{false};                // a peer has something urgent for it, and no cell
    std::atomic<std::uint32_t> greetings{0};           // peers that have made the first channel to it
    alignas(line_bytes) std::atomic<int> touching{0};  // uses memory that a peer has lent to it
    std::atomic<int> waits_for{-1};
    std::atomic<int> round{0};
    std::atomic<int> rounds{0};
    std::atomic<const char*> what{""};
};

/// The signatures that a rank opened last, for its peers' error messages. A sequence lock of plain words.
class alignas(line_bytes) announcements {
  public:
    void write(lane first, unsigned lanes, const signature& what) noexcept {
        entry& e = entries_[next_++ % entries_.size()];
        const auto version = e.version.load(std::memory_order_relaxed);
        e.version.store(version + 1, std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_release);
        record r{first, lanes, what};
        std::array<std::uint64_t, words> raw;
        std::memcpy(raw.data(), static_cast<const void*>(&r), sizeof r);
#if defined(__GNUC__)
#pragma GCC unroll 16
#endif
        for (std::size_t i = 0; i < words; ++i) e.raw[i].store(raw[i], std::memory_order_relaxed);
        e.version.store(version + 2, std::memory_order_release);
    }
    [[nodiscard, gnu::cold]] std::optional<signature> find(lane on) const noexcept {
        for (const entry& e : entries_) {
            const auto version = e.version.load(std::memory_order_acquire);
            std::array<std::uint64_t, words> raw;
            for (std::size_t i = 0; i < words; ++i) raw[i] = e.raw[i].load(std::memory_order_relaxed);
            std::atomic_thread_fence(std::memory_order_acquire);
            if (version % 2 != 0 || version == 0 || version != e.version.load(std::memory_order_relaxed)) continue;
            record r;
            std::memcpy(static_cast<void*>(&r), raw.data(), sizeof r);
            if (on - r.first < r.lanes) return r.what;
        }
        return std::nullopt;
    }

  private:
    struct record {
        lane first = 0;
        unsigned lanes = 0;
        signature what;
    };
    static_assert(sizeof(record) % sizeof(std::uint64_t) == 0);
    static constexpr std::size_t words = sizeof(record) / sizeof(std::uint64_t);
    struct entry {
        std::atomic<std::uint32_t> version{0};
        std::array<std::atomic<std::uint64_t>, words> raw{};
    };
    std::array<entry, 8> entries_;
    std::size_t next_ = 0;
};

}  // namespace allfold::detail
