// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

/// @file
/// Copying bytes with streaming (non-temporal) stores, which bypass all caches.

/// Defined under a thread sanitizer, from which memory accesses must not be hidden.
#if defined(__SANITIZE_THREAD__)
#define ALLFOLD_WATCHED_ACCESSES 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ALLFOLD_WATCHED_ACCESSES 1
#endif
#endif

#if defined(__SSE2__) && defined(__GNUC__) && !defined(ALLFOLD_WATCHED_ACCESSES)
#define ALLFOLD_STREAMS 1
#else
#define ALLFOLD_STREAMS 0
#endif

namespace allfold::detail {

#if ALLFOLD_STREAMS
#if defined(__AVX512F__)
inline constexpr std::size_t stream_width = 64;
#elif defined(__AVX__)
inline constexpr std::size_t stream_width = 32;
#else
inline constexpr std::size_t stream_width = 16;
#endif
using stream_vector [[gnu::vector_size(stream_width)]] = long long;

/// Avoids <immintrin.h>, which by itself adds a fifth to the time that a compiler takes to read everything else.
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

/// Copies with streaming stores. The bytes are visible to other cores after `finish_streams`.
[[gnu::noinline]] inline void stream_bytes(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
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

/// The same, complete on return, for ranges that may overlap; if they do, through the caches.
inline void stream_or_move(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    if (to < from + bytes && from < to + bytes) {
        std::memmove(to, from, bytes);
        return;
    }
    stream_bytes(to, from, bytes);
    finish_streams();
}

}  // namespace allfold::detail
