// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "allfold/transport/communicator.hpp"

/// @file
/// The memory through which one thread sends messages to another.

namespace allfold::detail {

inline constexpr std::size_t line_bytes = 128;  // two lines of 64: the adjacent line is prefetched with each
inline constexpr std::uint32_t cells_of_a_channel = 8;
inline constexpr std::uint32_t slots_of_a_channel = 4;
inline constexpr std::size_t inline_bytes = line_bytes - 16;
inline constexpr std::size_t inline_alignment = 16;
inline constexpr std::size_t slot_alignment = 64;

enum class carriage : std::uint8_t { nothing, in_cell, in_slot, lent, owned };

/// What a cell holds of a lent message.
struct loan {
    const part* parts;
    std::size_t count;
    std::atomic<int>* lent;
};

struct alignas(line_bytes) cell {
    std::atomic<std::uint32_t> sequence{0};  // n once the n-th message of the channel is in
    lane on = 0;
    std::uint32_t signature = 0;
    carriage how = carriage::nothing;
    std::uint8_t length = 0;  // of a message in the cell
    std::uint8_t taken = 0;   // cells and slots of the opposite channel that the sender has given back so far,
    std::uint8_t freed = 0;   // modulo 256
    alignas(inline_alignment) std::byte payload[inline_bytes];
};
static_assert(sizeof(cell) == line_bytes);

/// One direction between two ranks. The sender writes the cells and slots, the receiver the counters.
struct channel {
    std::array<cell, cells_of_a_channel> cells;
    alignas(line_bytes) std::atomic<std::uint32_t> taken{0};
    std::atomic<std::uint32_t> freed{0};
    alignas(line_bytes) std::unique_ptr<std::byte[]> memory;  // of the slots; the sender's, made when first used
    std::byte* slots = nullptr;
};

}  // namespace allfold::detail
