// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>

/// @file
/// How many long messages a rank is about to receive, and whether they fit into the cache.

namespace allfold::detail {

/// The number of long receives that wait for their messages. If this many messages, each as long as one that has
/// arrived, exceed the rank's share of the cache, which must hold both what it receives and as much again that it
/// sends, they evict one another: streaming (non-temporal) stores are then faster, and data that is not read at once
/// would not be read from a cache anyway. Two cores that share 32 MiB, AMD Zen 3: a halo of six faces of 2 MiB takes
/// 0.7x the time, of 4 MiB 0.65x, of 16 MiB 0.8x; one message of 16 MiB there and back, or both ways at once, 0.75x; if
/// everything sent is written, and everything received is read, 0.87x to 0.96x. Messages that do fit take 1.2 to 2.7
/// times as long this way: one message of 1 to 4 MiB. What ranks that share a core have in the cache counts too: eight
/// ranks on two cores, a round trip of 4 MiB takes 0.6x to 0.7x the time.
class awaited_receives {
  public:
    /// The minimum length of a receive that counts, and of a message that is copied with streaming stores.
    static constexpr std::size_t min_bytes = std::size_t{256} << 10;

    /// `share`: this rank's share of the cache, half of which is for what it sends.
    explicit awaited_receives(std::size_t share) noexcept : share_(share / 2) {}

    /// Adds a receive that waits from now on; returns whether it counts.
    bool add(std::size_t bytes) noexcept {
        begin(bytes);
        if (bytes < min_bytes) return false;
        ++now_;
        return true;
    }
    void remove() noexcept { --now_; }
    /// Notes a receive whose message has already arrived.
    void begin(std::size_t bytes) noexcept {
        if (bytes >= min_bytes) most_ = std::max(now_ + 1, now_ == 0 ? 0 : most_ / 2);
    }
    /// Whether a message of this length is to be copied with streaming stores. The last of several is treated like the
    /// others.
    [[nodiscard]] bool exceed_cache(std::size_t bytes) const noexcept {
        return bytes >= min_bytes && bytes > share_ / std::max(most_, std::size_t{1});
    }

  private:
    std::size_t share_;
    std::size_t now_ = 0;
    std::size_t most_ = 0;  // at one time, recently
};

}  // namespace allfold::detail
