// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "allfold/transport/detail/copy.hpp"
#include "allfold/transport/detail/stream.hpp"

/// @file
/// Ways to store bytes in memory.

namespace allfold::detail {

/// How results are stored.
enum class store : std::uint8_t {
    plain,      ///< through the cache: for data that is used again soon
    shared,     ///< into cache lines that another core holds
    streaming,  ///< past the cache, for results that exceed it: saves reading the lines that are overwritten
};

/// How each of several results is stored, one of which may be this rank's own.
class store_modes {
  public:
    constexpr store_modes(store all = store::plain) noexcept : others_(all), own_(all) {}
    constexpr store_modes(store others, store own, std::size_t number_of_own) noexcept
        : others_(others), own_(own), number_of_own_(number_of_own) {}

    [[nodiscard]] constexpr store operator[](std::size_t number) const noexcept {
        return number == number_of_own_ ? own_ : others_;
    }
    [[nodiscard]] constexpr store_modes without_first() const noexcept { return {others_, own_, number_of_own_ - 1}; }
    [[nodiscard]] constexpr bool any_streams() const noexcept {
        return others_ == store::streaming || own_ == store::streaming;
    }
    /// The index of the result that is used again soonest among `results`; `results` if none is stored through the
    /// cache.
    [[nodiscard]] constexpr std::size_t nearest(std::size_t results) const noexcept {
        if (number_of_own_ < results && own_ == store::plain) return number_of_own_;
        return others_ == store::plain ? 0 : results;
    }

  private:
    store others_;
    store own_;
    std::size_t number_of_own_ = static_cast<std::size_t>(-1);
};

inline void store_bytes(std::byte* to, const std::byte* from, std::size_t bytes, store how) noexcept {
    switch (how) {
        case store::plain:
            if (bytes != 0) std::memcpy(to, from, bytes);
            break;
        case store::shared: copy_to_shared(to, from, bytes); break;
        case store::streaming: stream_bytes(to, from, bytes); break;
    }
}

}  // namespace allfold::detail
