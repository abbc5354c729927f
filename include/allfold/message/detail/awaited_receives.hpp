// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <thread>

#include "allfold/transport/detail/cache_size.hpp"

/// @file
/// How many long messages a rank is about to receive, and whether they fit into a cache.

namespace allfold::detail {

/// Long receives that wait for their message. Where as many messages, all as long as one that has come, are more than
/// the share that a rank has in the cache, for what it receives and as much that it sends, each of them drives the
/// others out: copied past all caches they come sooner, and what is not read at once is not read from a cache anyway.
/// Two cores that share 32 MiB, AMD Zen 3: halo of six faces of 2 MiB 0.7 of the time, of 4 MiB 0.65, of 16 MiB 0.8;
/// one message of 16 MiB there and back, or both ways at once, 0.75; where all that is sent is written, and all that
/// has come is read, 0.87 to 0.96. What does fit comes in 1.2 to 2.7 times the time so: one message of 1 to 4 MiB.
class awaited_receives {
  public:
    /// Of a receive that counts, or a message that is copied past all caches.
    static constexpr std::size_t least_bytes = std::size_t{256} << 10;

    explicit awaited_receives(int ranks) noexcept : awaited_receives(ranks, cache_bytes()) {}
    awaited_receives(int ranks, std::size_t cache) noexcept
        : share_(cache / 2 /
                 std::clamp(std::size_t{std::thread::hardware_concurrency()}, std::size_t{1},
                            static_cast<std::size_t>(ranks))) {}

    /// One that waits from now on. Whether it counts.
    bool add(std::size_t bytes) noexcept {
        begin(bytes);
        if (bytes < least_bytes) return false;
        ++now_;
        return true;
    }
    void remove() noexcept { --now_; }
    /// One whose message is there already.
    void begin(std::size_t bytes) noexcept {
        if (bytes >= least_bytes) most_ = std::max(now_ + 1, now_ == 0 ? 0 : most_ / 2);
    }
    /// Whether a message of so many bytes is to be copied past all caches. The last of several is as the others were.
    [[nodiscard]] bool exceed_cache(std::size_t bytes) const noexcept {
        return bytes >= least_bytes && bytes > share_ / std::max(most_, std::size_t{1});
    }

  private:
    std::size_t share_;
    std::size_t now_ = 0;
    std::size_t most_ = 0;  // at one time, of late
};

}  // namespace allfold::detail
