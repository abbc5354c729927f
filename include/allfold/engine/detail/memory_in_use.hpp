// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "allfold/engine/binding.hpp"

/// @file
/// Which memory an operation in flight uses, to find out whether somebody else changes it. Only a communicator that
/// asks for this pays for it.

namespace allfold::detail {

/// A communicator that wants to know which memory the operations in flight use.
template <class Comm>
concept watching_memory = requires(Comm& comm, const void* operation) { comm.forget_memory(operation); };

/// The memory of one operation: what it only reads, and what it also writes.
struct memory_in_use {
    std::vector<memory_range> read, written;
};

inline void sort_ranges(memory_in_use& all) {
    const auto by_address = [](std::vector<memory_range>& ranges) {
        std::ranges::sort(ranges, std::less<>(), &memory_range::begin);
    };
    by_address(all.read);
    by_address(all.written);
}
/// Whether one of two operations writes what the other one uses; their ranges are sorted.
[[nodiscard]] inline bool conflict(const memory_in_use& a, const memory_in_use& b) noexcept {
    return share_memory(a.written, b.written) || share_memory(a.written, b.read) || share_memory(a.read, b.written);
}

/// A hash of what the memory holds now.
[[nodiscard]] inline std::uint64_t hash_of(const std::vector<memory_range>& all) noexcept {
    std::uint64_t hash = 0xcbf29ce484222325u;
    constexpr std::ptrdiff_t word_bytes = sizeof hash;
    const auto add = [&hash](const std::byte* data, std::size_t bytes) {
        std::uint64_t word = 0;
        std::memcpy(&word, data, bytes);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    };
    for (const memory_range& each : all) {
        const std::byte* at = each.begin;
        for (; each.end - at >= word_bytes; at += word_bytes) add(at, sizeof hash);
        add(at, static_cast<std::size_t>(each.end - at));
    }
    return hash;
}

}  // namespace allfold::detail
