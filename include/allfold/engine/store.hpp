// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "allfold/transport/detail/copy.hpp"

#if defined(__SSE2__) && defined(__GNUC__) && !defined(ALLFOLD_WATCHED_ACCESSES)
#define ALLFOLD_STREAMS 1
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

#if ALLFOLD_STREAMS
#if defined(__AVX512F__)
inline constexpr std::size_t stream_width = 64;
#elif defined(__AVX__)
inline constexpr std::size_t stream_width = 32;
#else
inline constexpr std::size_t stream_width = 16;
#endif
using stream_vector [[gnu::vector_size(stream_width)]] = long long;

/// Without <immintrin.h>, which alone takes a fifth of the time in which a compiler reads all else.
inline void stream_one(std::byte* to, const std::byte* from) noexcept {
    stream_vector value;
    std::memcpy(&value, from, sizeof value);
    auto* const line = reinterpret_cast<stream_vector*>(to);
#if defined(__clang__)
    __builtin_nontemporal_store(value, line);
#elif defined(__AVX512F__)
    __builtin_ia32_movntdq512(line, value);
#elif defined(__AVX__)
    __builtin_ia32_movntdq256(line, value);
#else
    __builtin_ia32_movntdq(line, value);
#endif
}

/// Copies past the cache. The bytes are visible to others after `finish_streams`.
inline void stream_bytes(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    constexpr std::size_t width = stream_width;
    const std::size_t head = (0 - reinterpret_cast<std::uintptr_t>(to)) % width;
    if (bytes < head + width) {
        if (bytes != 0) std::memcpy(to, from, bytes);
        return;
    }
    std::memcpy(to, from, head);
    std::size_t i = head;
    for (; i + width <= bytes; i += width) stream_one(to + i, from + i);
    std::memcpy(to + i, from + i, bytes - i);
}
inline void finish_streams() noexcept { __builtin_ia32_sfence(); }
#else
inline void stream_bytes(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    if (bytes != 0) std::memcpy(to, from, bytes);
}
inline void finish_streams() noexcept {}
#endif

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
