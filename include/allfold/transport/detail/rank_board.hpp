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

/// The signatures that a rank opened most recently, for its peers' error messages, and of many earlier ones the hashes:
/// a rank that waits may have to find out that a peer made another call long ago. A sequence lock over plain words.
class alignas(line_bytes) announcements {
    // Comes first, since what it returns is deduced.
    struct range {
        lane first = 0;
        unsigned lanes = 0;

        [[nodiscard]] static auto has(lane on) noexcept {
            return [on](range all) { return on - all.first < all.lanes; };
        }
        /// Assembled in a register: a word assembled in memory could be read back only after all earlier stores, and
        /// those of a message take as long as the message.
        [[nodiscard]] std::uint64_t word() const noexcept { return std::uint64_t{lanes} << 32 | first; }
        [[nodiscard]] static range of(std::uint64_t word) noexcept {
            return {static_cast<lane>(word), static_cast<unsigned>(word >> 32)};
        }
    };

  public:
    void write(lane first, unsigned lanes, const signature& what, std::uint32_t hash = 0) noexcept {
        note_end(next_lane_);  // of the latest one, which may have grown
        next_lane_ = first + lanes;
        const std::size_t at = ++latest_ % entries_.size();
        if (latest_ > entries_.size()) keep_hash(at);
        hashes_[at] = hash;
        entries_[at].write(latest_, range{first, lanes}.word(), &what);
        note_end(next_lane_);  // last: until then its lanes count as not opened
    }
    /// The same for one lane; cheap if it directly follows the lanes of a signature with the same hash, or is one of
    /// them.
    void write_again(lane on, const signature& what, std::uint32_t hash) noexcept {
        constexpr lane many = lane{1} << 30;  // keeps the number of lanes well clear of wrapping
        const std::size_t at = latest_ % entries_.size();
        std::atomic<std::uint64_t>& lanes = entries_[at].lanes;
        range all = range::of(lanes.load(std::memory_order_relaxed));
        if (hashes_[at] == hash && on - all.first < all.lanes) return;
        if (hashes_[at] != hash || next_lane_ != on || on % many == 0) return write(on, 1, what, hash);
        ++next_lane_;
        ++all.lanes;
        lanes.store(all.word(), std::memory_order_release);
    }
    /// The latest one that has this lane.
    [[nodiscard, gnu::cold]] std::optional<signature> find(lane on) const noexcept {
        std::optional<signature> found;
        if (!is_ahead(on)) static_cast<void>(find_signature(on, found));
        return found;
    }
    /// Its hash, also if the signature has been forgotten; 0 if that has been forgotten too.
    [[nodiscard, gnu::cold]] std::uint32_t find_hash(lane on) const noexcept {
        std::optional<signature> known;
        if (is_ahead(on) || !find_signature(on, known)) return 0;  // what is being written may have the lane
        if (known) return known->hash();
        std::uint64_t found = 0;
        find_in(earlier_, range::has(on), [&found](range, const auto& raw) { found = raw[0]; });
        return static_cast<std::uint32_t>(found);
    }

  private:
    static_assert(sizeof(signature) % sizeof(std::uint64_t) == 0);
    static constexpr std::size_t words = sizeof(signature) / sizeof(std::uint64_t);
    template <std::size_t Words>
    struct entry {
        std::atomic<std::uint64_t> version{0};  // even, and grows from one to the next; odd while it is being written
        std::atomic<std::uint64_t> lanes{0};
        std::array<std::atomic<std::uint64_t>, Words> raw{};

        void write(std::uint64_t number, std::uint64_t on, const void* what) noexcept {
            version.store(2 * number - 1, std::memory_order_relaxed);
            std::atomic_thread_fence(std::memory_order_release);
            lanes.store(on, std::memory_order_relaxed);
#if defined(__GNUC__)
#pragma GCC unroll 16
#endif
            for (std::size_t i = 0; i < Words; ++i) {
                std::uint64_t word;
                std::memcpy(&word, static_cast<const std::byte*>(what) + i * sizeof word, sizeof word);
                raw[i].store(word, std::memory_order_relaxed);
            }
            version.store(2 * number, std::memory_order_release);
        }
    };

    void note_end(lane end) noexcept {
        if (!is_restart_lane(end - 1) && is_later(end, end_.load(std::memory_order_relaxed)))
            end_.store(end, std::memory_order_release);
    }
    bool find_signature(lane on, std::optional<signature>& found) const noexcept {
        return find_in(entries_, range::has(on), [&found](range, const auto& raw) {
            std::memcpy(static_cast<void*>(&found.emplace()), raw.data(), sizeof(signature));
        });
    }
    /// Whether a lane has yet to be opened: an old signature may have the same number.
    [[nodiscard]] bool is_ahead(lane on) const noexcept {
        if (is_restart_lane(on)) return false;
        const lane end = end_.load(std::memory_order_acquire);
        lane grown = end;  // the end of the latest entry, which may have grown
        const auto is_counted = [](range all) { return !is_restart_lane(all.first); };
        find_in(entries_, is_counted, [&grown](range all, const auto&) { grown = all.first + all.lanes; });
        return !is_later(is_later(grown, end) ? grown : end, on);
    }
    /// Calls use(lanes, words) for each entry that is wanted and later than all before it; false if one was being
    /// written meanwhile.
    template <std::size_t Count, std::size_t Words, class Wanted, class Use>
    static bool find_in(const std::array<entry<Words>, Count>& entries, Wanted is_wanted, Use use) noexcept {
        std::uint64_t latest = 0;
        bool is_steady = true;
        for (const entry<Words>& e : entries) {
            const auto version = e.version.load(std::memory_order_acquire);
            const range all = range::of(e.lanes.load(std::memory_order_acquire));
            std::array<std::uint64_t, Words> raw;
            for (std::size_t i = 0; i < Words; ++i) raw[i] = e.raw[i].load(std::memory_order_relaxed);
            std::atomic_thread_fence(std::memory_order_acquire);
            if (version % 2 != 0 || version != e.version.load(std::memory_order_relaxed)) is_steady = false;
            if (!is_steady || version == 0 || !is_wanted(all) || version < latest) continue;
            latest = version;
            use(all, raw);
        }
        return is_steady;
    }
    /// Keeps the hash of a signature that is about to be overwritten.
    void keep_hash(std::size_t at) noexcept {
        const entry<words>& old = entries_[at];
        std::uint64_t hash = hashes_[at];
        if (hash == 0) {
            std::array<std::uint64_t, words> raw;
            for (std::size_t i = 0; i < words; ++i) raw[i] = old.raw[i].load(std::memory_order_relaxed);
            signature what;
            std::memcpy(static_cast<void*>(&what), raw.data(), sizeof what);
            hash = what.hash();
        }
        const std::uint64_t number = latest_ - entries_.size();
        earlier_[number % earlier_.size()].write(number, old.lanes.load(std::memory_order_relaxed), &hash);
    }

    static constexpr std::size_t signatures_kept = 8, hashes_kept = 256;

    std::array<entry<words>, signatures_kept> entries_;
    std::array<std::uint32_t, signatures_kept> hashes_{};  // of the entries; 0 if not given
    std::uint64_t latest_ = 0;                             // how many have been written
    lane next_lane_ = 0;                                   // the one after the lanes of the latest one
    std::atomic<lane> end_{0};  // the one after all lanes, but for those that the latest entry has got since
    std::array<entry<1>, hashes_kept> earlier_;
};

}  // namespace allfold::detail
