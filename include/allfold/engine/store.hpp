// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "allfold/transport/detail/copy.hpp"

#if defined(__SSE2__) && !defined(ALLFOLD_WATCHED_ACCESSES)
#define ALLFOLD_STREAMS 1
#include <immintrin.h>
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
using stream_vector = __m512i;
inline void stream_one(std::byte* to, const std::byte* from) noexcept {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
}
#elif defined(__AVX__)
using stream_vector = __m256i;
inline void stream_one(std::byte* to, const std::byte* from) noexcept {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
#else
using stream_vector = __m128i;
inline void stream_one(std::byte* to, const std::byte* from) noexcept {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
#endif

/// Copies past the cache. The bytes are visible to others after `finish_streams`.
inline void stream_bytes(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    constexpr std::size_t width = sizeof(stream_vector);
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
inline void finish_streams() noexcept { _mm_sfence(); }
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
