// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/copy.hpp"

/// @file
/// The memory through which one thread sends messages to another.

namespace allfold::detail {

inline constexpr std::size_t line_bytes = 128;  // two lines of 64: the adjacent line is prefetched along with each
// With 16 cells, 16 operations of 8 bytes in flight take 0.75x the time that they take with 8; with 64 cells, 64
// messages of 8 bytes each way take 0.86x the time that they take with 16. A single call takes the same time.
inline constexpr std::uint32_t cells_of_a_channel = 64;
// As many as a cell has bits for. With 8 of them, 64 messages in flight each way between two nearby cores take 1.12x
// the time at 1 KiB, 1.19x at 4 KiB and 1.25x at 16 KiB; 16 all_reduce in flight 1.11x at 4 KiB, 1.4x at 16 KiB and
// 1.7x at 32 KiB. With 16: 1.06x, 1.07x, 1.09x; 1.01x, 1.11x and 1.06x. A single call fills two.
inline constexpr std::uint32_t buffers_of_a_channel = 24;
inline constexpr std::size_t max_kept_early = 32;  // messages of a channel, unless a later one is urgent
inline constexpr std::size_t inline_bytes = line_bytes - 16;
inline constexpr std::size_t inline_alignment = 16;
inline constexpr std::size_t buffer_alignment = 64;

enum class transfer : std::uint8_t {
    nothing,
    in_cell,
    in_buffer,
    in_slices,  // in a buffer, behind a list of where each reader's slice lies
    on_notice,  // in the notice's own memory
    on_bulletin,
    lent,   // read in the sender's memory
    owned,  // in memory that is freed by whoever holds the message
};

/// How a message travels. `copied`: the way for a message that does not fit into a cell and is not lent.
[[nodiscard]] inline transfer transfer_of(const outgoing& message, std::size_t eager_bytes, transfer copied) noexcept {
    if (message.copyable && message.bytes <= inline_bytes && message.alignment <= inline_alignment)
        return transfer::in_cell;
    const bool lent = !message.copyable || (message.bytes > eager_bytes && !message.copied);
    return lent ? transfer::lent : copied;
}

/// What a cell holds for a lent message.
struct loan {
    const part* parts;
    std::size_t count;
    std::atomic<int>* lent;
};

/// What a cell holds for a message that lies in a buffer, or in memory of its own.
struct packed_message {
    std::byte* data;
    std::size_t bytes;
    std::uint32_t buffer;
};
[[nodiscard]] inline std::byte* allocate_message(std::size_t bytes) {
    return static_cast<std::byte*>(::operator new(bytes, std::align_val_t{buffer_alignment}));
}
inline void free_message(std::byte* data) noexcept { ::operator delete(data, std::align_val_t{buffer_alignment}); }

/// The part of a cell's header that is written last, in one store.
struct alignas(8) cell_news {
    std::uint16_t number = 0;  // of the message in the cell, counted from 1 along the channel, modulo 2^16
    transfer how = transfer::nothing;
    std::uint8_t length = 0;       // of a message that is in the cell itself
    std::uint32_t taken : 8 = 0;   // of the opposite channel: how many cells its receiver has emptied, modulo 256,
    std::uint32_t freed : 24 = 0;  // and one bit for each buffer that it has freed an odd number of times

    [[nodiscard]] static constexpr cell_news of(std::uint32_t number, transfer how, std::uint8_t length,
                                                std::uint32_t taken = 0, std::uint32_t freed = 0) noexcept {
        return {static_cast<std::uint16_t>(number), how, length, taken & 0xffu, freed & 0xffffffu};
    }
};

struct alignas(line_bytes) cell {
    std::atomic<cell_news> news{cell_news{}};  // written last
    lane on = 0;
    std::uint32_t signature = 0;
    alignas(inline_alignment) std::byte payload[inline_bytes];

    /// Whether the n-th message of the channel has arrived.
    [[nodiscard]] bool has(std::uint32_t n) const noexcept {
        return news.load(std::memory_order_acquire).number == static_cast<std::uint16_t>(n);
    }
    /// Where the message lies, if it was copied when it was posted.
    [[nodiscard]] bool locate(message_in_place& here) const noexcept {
        const cell_news in = news.load(std::memory_order_relaxed);
        here.signature = signature;
        if (in.how == transfer::in_cell) {
            here.data = const_cast<std::byte*>(payload);
            here.bytes = in.length;
            return true;
        }
        if (in.how != transfer::in_buffer) return false;
        const auto where = reference<packed_message>();
        here.data = where.data;
        here.bytes = where.bytes;
        return true;
    }
    static constexpr std::size_t in_first_line = cache_line - (line_bytes - inline_bytes);  // of the payload
    /// Makes the lines that a message of this length needs this core's own, while the cell is empty.
    [[gnu::always_inline]] void claim(std::size_t bytes) noexcept {
        static_cast<volatile std::uint32_t&>(signature) = 0;
        if (bytes > in_first_line) claim_lines(payload + in_first_line, 1);
    }
    /// Stores where a message lies that is not in the cell itself.
    template <class T>
    void refer_to(const T& where, std::size_t at = 0) noexcept {
        std::memcpy(payload + at, &where, sizeof where);
    }
    /// Lends the message to this many readers.
    void lend(const outgoing& message, int readers) noexcept {
        message.lent->fetch_add(readers, std::memory_order_relaxed);
        const loan lent{message.parts.data(), message.parts.size(), message.lent};
        refer_to(lent);
        refer_to(message.bytes, sizeof lent);
    }
    template <class T>
    [[nodiscard]] T reference(std::size_t at = 0) const noexcept {
        T where;
        std::memcpy(&where, payload + at, sizeof where);
        return where;
    }
};
static_assert(sizeof(cell) == line_bytes);

/// One direction between two ranks. The sender writes the cells and buffers, the receiver the counters.
struct channel {
    channel() = default;
    channel(const channel&) = delete;
    channel& operator=(const channel&) = delete;
    ~channel() {
        for (std::uint32_t next = taken; cells[next % cells_of_a_channel].has(next + 1); ++next)
            if (const cell& c = cells[next % cells_of_a_channel]; c.news.load().how == transfer::owned)
                free_message(c.reference<packed_message>().data);  // never taken out
        for (const buffer& each : buffers) free_message(each.data);
    }

    /// As large as the longest message that it has held: most pairs that communicate have little to say.
    struct buffer {
        std::byte* data = nullptr;
        std::size_t room = 0;
    };

    std::array<cell, cells_of_a_channel> cells;
    alignas(line_bytes) std::atomic<std::uint32_t> taken{0};
    std::atomic<std::uint32_t> freed{0};
    alignas(line_bytes) std::atomic<std::uint32_t> urgent{0};  // set by the sender: all up to here must be taken out
    std::array<buffer, buffers_of_a_channel> buffers{};        // used by the sender
};

}  // namespace allfold::detail
