// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "allfold/transport/detail/copy.hpp"

#if defined(__SSE2__) && !defined(ALLFOLD_WATCHED_ACCESSES)
#define ALLFOLD_STREAMS 1
#include <emmintrin.h>
#else
#define ALLFOLD_STREAMS 0
#endif

/// @file
/// Ways to put bytes in memory.

namespace allfold::detail {

/// How results are stored.
enum class store : std::uint8_t {
    plain,      ///< through the cache: for what is used again soon
    shared,     ///< into lines that another core holds
    streaming,  ///< past the cache, for results larger than it: saves reading the lines that are overwritten
};

/// Copies past the cache. Ends with a fence: the bytes are visible to whoever is signalled afterwards.
inline void stream_bytes(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
#if ALLFOLD_STREAMS
    const std::size_t head = (0 - reinterpret_cast<std::uintptr_t>(to)) % 16;
    if (bytes < head + 16) {
        if (bytes != 0) std::memcpy(to, from, bytes);
        return;
    }
    std::memcpy(to, from, head);
    std::size_t i = head;
    for (; i + 16 <= bytes; i += 16)
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                         _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
    _mm_sfence();
    std::memcpy(to + i, from + i, bytes - i);
#else
    if (bytes != 0) std::memcpy(to, from, bytes);
#endif
}

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
