// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>

#include "allfold/transport/detail/cache_size.hpp"

/// @file
/// How much a rank is about to receive, and whether that fits into a cache.

namespace allfold::detail {

/// Of long receives that wait for their message. Where they are more than the share that a rank has in the cache, for
/// what it receives and as much that it sends, each of them drives the others out: copied past all caches they come
/// sooner, and what is not read at once is not read from a cache anyway. Two cores that share 32 MiB, AMD Zen 3: halo
/// of six faces of 2 MiB 0.7 of the time, of 4 MiB 0.65, of 16 MiB 0.8; one message of 16 MiB there and back, or both
/// ways at once, 0.75; where all that is sent is written, and all that has come is read, 0.87 to 0.96. What does fit
/// comes in 1.2 to 2.7 times the time so: one message of 1 to 4 MiB.
class awaited_bytes {
  public:
    /// Of a message that counts, or is copied past all caches.
    static constexpr std::size_t least_bytes = std::size_t{256} << 10;

    explicit awaited_bytes(int ranks, std::size_t cache = cache_bytes()) noexcept
        : most_cached_(cache / (2 * static_cast<std::size_t>(ranks))) {}

    /// Of a receive that waits from now on: whether it counts.
    bool add(std::size_t bytes) noexcept {
        if (bytes < least_bytes) return false;
        begin(bytes);
        now_ += bytes;
        return true;
    }
    /// It does not wait any more.
    void remove(std::size_t bytes) noexcept { now_ -= bytes; }
    /// Of one whose message is there already.
    void begin(std::size_t bytes) noexcept {
        if (now_ == 0) most_ = 0;
        most_ = std::max(most_, now_ + bytes);
    }
    /// Whether a message of so many bytes is to be copied past all caches. The last of several is as the others were.
    [[nodiscard]] bool exceed_cache(std::size_t bytes) const noexcept {
        return bytes >= least_bytes && most_ > most_cached_;
    }

  private:
    std::size_t most_cached_;
    std::size_t now_ = 0;
    std::size_t most_ = 0;  // at one time, since there were none
};

}  // namespace allfold::detail
