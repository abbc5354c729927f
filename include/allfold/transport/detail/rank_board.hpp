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
/// What the ranks of a group of threads publish about themselves: whom to wake, what they wait for, what they called.

namespace allfold::detail {

/// What the other ranks can look up about one rank.
struct rank_board {
    alignas(line_bytes) bell_pull bell;
    std::atomic<bool> is_given{false};  // its communicator has been handed out
    std::atomic<bool> departed{false};
    std::atomic<bool> has_stopped_reading{false};      // it has departed, and has checked what others have lent to it
    std::atomic<bool> is_called{false};                // a peer has an urgent message for it, and no free cell
    std::atomic<std::uint32_t> connections{0};         // how many peers have created the first channel to it
    alignas(line_bytes) std::atomic<int> touching{0};  // it is using memory that a peer has lent to it
    std::atomic<int> waits_for{-1};
    std::atomic<int> round{0};
    std::atomic<int> rounds{0};
    std::atomic<const char*> what{""};
};

/// The signatures that a rank opened most recently, for its peers' error messages. A sequence lock over plain words.
class alignas(line_bytes) announcements {
  public:
    void write(lane first, unsigned lanes, const signature& what, std::uint32_t hash = 0) noexcept {
        hash_ = hash;
        next_lane_ = first + lanes;
        entry& e = entries_[++latest_ % entries_.size()];
        e.version.store(2 * latest_ - 1, std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_release);
        e.lanes.store(range{first, lanes}.word(), std::memory_order_relaxed);
#if defined(__GNUC__)
#pragma GCC unroll 16
#endif
        for (std::size_t i = 0; i < words; ++i) {
            std::uint64_t word;
            std::memcpy(&word, reinterpret_cast<const std::byte*>(&what) + i * sizeof word, sizeof word);
            e.raw[i].store(word, std::memory_order_relaxed);
        }
        e.version.store(2 * latest_, std::memory_order_release);
    }
    /// The same for one lane; cheap if it directly follows the lanes of a signature with the same hash, or is one of
    /// them.
    void write_again(lane on, const signature& what, std::uint32_t hash) noexcept {
        constexpr lane many = lane{1} << 30;  // keeps the number of lanes well clear of wrapping
        std::atomic<std::uint64_t>& lanes = entries_[latest_ % entries_.size()].lanes;
        range all = range::of(lanes.load(std::memory_order_relaxed));
        if (hash_ == hash && on - all.first < all.lanes) return;
        if (hash_ != hash || next_lane_ != on || on % many == 0) return write(on, 1, what, hash);
        ++next_lane_;
        ++all.lanes;
        lanes.store(all.word(), std::memory_order_release);
    }
    /// The latest one that has this lane.
    [[nodiscard, gnu::cold]] std::optional<signature> find(lane on) const noexcept {
        std::optional<signature> found;
        std::uint64_t latest = 0;
        for (const entry& e : entries_) {
            const auto version = e.version.load(std::memory_order_acquire);
            const range all = range::of(e.lanes.load(std::memory_order_acquire));
            std::array<std::uint64_t, words> raw;
            for (std::size_t i = 0; i < words; ++i) raw[i] = e.raw[i].load(std::memory_order_relaxed);
            std::atomic_thread_fence(std::memory_order_acquire);
            if (version % 2 != 0 || version == 0 || version != e.version.load(std::memory_order_relaxed)) continue;
            if (on - all.first >= all.lanes || version < latest) continue;
            latest = version;
            std::memcpy(static_cast<void*>(&found.emplace()), raw.data(), sizeof(signature));
        }
        return found;
    }

  private:
    struct range {
        lane first = 0;
        unsigned lanes = 0;

        /// Assembled in a register: a word assembled in memory could be read back only after all earlier stores, and
        /// those of a message take as long as the message.
        [[nodiscard]] std::uint64_t word() const noexcept { return std::uint64_t{lanes} << 32 | first; }
        [[nodiscard]] static range of(std::uint64_t word) noexcept {
            return {static_cast<lane>(word), static_cast<unsigned>(word >> 32)};
        }
    };
    static_assert(sizeof(signature) % sizeof(std::uint64_t) == 0);
    static constexpr std::size_t words = sizeof(signature) / sizeof(std::uint64_t);
    struct entry {
        std::atomic<std::uint64_t> version{0};  // even, and grows from one to the next; odd while it is being written
        std::atomic<std::uint64_t> lanes{0};
        std::array<std::atomic<std::uint64_t>, words> raw{};
    };
    std::array<entry, 8> entries_;
    std::uint64_t latest_ = 0;  // how many have been written
    std::uint32_t hash_ = 0;    // of the latest one; 0 if not given
    lane next_lane_ = 0;        // the one after the lanes of the latest one
};

}  // namespace allfold::detail
