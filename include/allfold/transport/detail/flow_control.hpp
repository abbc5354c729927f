// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "allfold/transport/communicator.hpp"

/// @file
/// When a sender may post, and which messages a receiver takes in before they are asked for.
///
/// A channel has few cells and few buffers, and those that a receiver occupies for one operation are lost to the
/// others. To avoid deadlock, messages on later lanes must never block an older lane:
///
/// 1. A message that finds all buffers occupied, one of them by a later lane, travels in memory of its own.
/// 2. A message with a later lane ahead of it in the channel is urgent: the receiver takes everything up to it out of
///    the cells as soon as it looks at anything at all. If all cells are occupied, the sender calls for that.
/// 3. Everything else waits its turn. A rank that starts its operations one after another is always held back, and the
///    memory for early messages is bounded by the operations that their sender has in flight.
///
/// The oldest lane that is not complete on all ranks therefore finds room on each of them, so it completes, and the
/// next one becomes the oldest.
///
/// The lane of a prepared operation does not tell when it was started, and ranks may start such operations in different
/// orders. Its messages therefore wait only for those of its own lane, and no others wait for them: as if each of the
/// two were later than the other. If a rank runs ahead with several such operations, the memory for early messages is
/// bounded by how far ahead it is. Sends and receives are such operations as well. Their messages may stay unreceived
/// for long, so those that are kept early leave their buffers: otherwise nothing would hold back a rank that runs ahead
/// in collectives meanwhile.

namespace allfold::detail {

/// The operation that a message belongs to.
struct sender {
    lane on = 0;
    bool unordered = false;  ///< a prepared operation: `on` does not tell when it was started

    [[nodiscard]] friend constexpr bool operator==(const sender&, const sender&) = default;
};

/// Whether messages of `before` must not make a message of `mine` wait.
[[nodiscard]] constexpr bool may_be_overtaken(sender before, sender mine) noexcept {
    return before.on != mine.on && (before.unordered || mine.unordered || is_later(before.on, mine.on));
}

/// What a sender knows about its channel. Messages are numbered from 1, modulo 2^32.
template <std::uint32_t Cells, std::uint32_t Buffers>
class posted_messages {
  public:
    static_assert(Buffers <= 24, "a cell has only 24 bits to report freed buffers");
    static constexpr std::uint32_t every_buffer = (1u << Buffers) - 1;

    [[nodiscard]] constexpr std::uint32_t sent() const noexcept { return sent_; }
    [[nodiscard]] constexpr bool has_cell() const noexcept { return has_cells(1); }
    [[nodiscard]] constexpr bool has_cells(std::uint32_t count) const noexcept {
        return sent_ - taken_ <= Cells - count;
    }
    [[nodiscard]] constexpr bool has_buffer() const noexcept { return occupied() != every_buffer; }
    /// The first free buffer, preferably not the one filled last: the peer may still be reading that.
    [[nodiscard]] constexpr std::uint32_t free_buffer() const noexcept {
        const unsigned free = every_buffer & ~occupied(), others = free & ~(1u << latest_buffer_);
        return static_cast<std::uint32_t>(std::countr_zero(others != 0 ? others : free));
    }

    /// Whether `overtakes` need be evaluated at all.
    [[nodiscard]] constexpr bool may_overtake(sender mine) const noexcept {
        return (mine.unordered || has_unordered_ || is_later(newest_, mine.on)) &&
               !(is_of_one_lane_ && mine.on == newest_);
    }
    /// Whether a later lane is ahead of a message of `mine`, in a cell or a buffer.
    [[nodiscard, gnu::always_inline]] constexpr bool overtakes(sender mine) noexcept {
        return may_overtake(mine) && is_behind_later(mine);
    }

    constexpr void fill_buffer(std::uint32_t buffer, sender of) noexcept {
        in_buffers_[buffer] = of;
        filled_ ^= 1u << buffer;
        latest_buffer_ = buffer;
    }
    /// Records that a message has got the next cell; returns its number.
    [[gnu::always_inline]] constexpr std::uint32_t post(sender of) noexcept {
        if (in_cells_[sent_ % Cells] != of) in_cells_[sent_ % Cells] = of;  // comparing is cheaper than a store
        if (of.on != newest_) {
            is_of_one_lane_ = false;
            if (is_later(of.on, newest_)) newest_ = of.on;
        }
        if (of.unordered && !has_unordered_) has_unordered_ = true;
        return ++sent_;
    }

    /// What the receiver reports: how many messages it has taken out, and which buffers it has freed an odd number of
    /// times.
    constexpr void update(std::uint32_t taken, std::uint32_t freed) noexcept {
        taken_ = taken;
        freed_ = freed;
    }
    /// The same with the last byte of the count, which is never more than a few messages ahead of what is known.
    constexpr void update_from_last_byte(std::uint8_t taken, std::uint32_t freed) noexcept {
        taken_ += static_cast<std::uint8_t>(taken - static_cast<std::uint8_t>(taken_));
        freed_ = freed;
    }

  private:
    /// Searches everything that is in the channel; rare, hence out of line.
    [[nodiscard, gnu::noinline]] constexpr bool is_behind_later(sender mine) noexcept {
        bool has_unordered = false, has_others = false;
        const auto is_overtaken = [&](sender before) {
            has_unordered |= before.unordered;
            has_others |= before.on != mine.on;
            return may_be_overtaken(before, mine);
        };
        for (std::uint32_t n = taken_; n != sent_; ++n)
            if (is_overtaken(in_cells_[n % Cells])) return true;
        for (std::uint32_t b = 0, rest = occupied(); rest != 0; ++b, rest >>= 1)
            if ((rest & 1u) != 0 && is_overtaken(in_buffers_[b])) return true;
        newest_ = mine.on;  // nothing later is left in the channel
        has_unordered_ = has_unordered;
        is_of_one_lane_ = !has_others;
        return false;
    }
    /// A buffer is occupied if it has been filled once more than freed.
    [[nodiscard]] constexpr unsigned occupied() const noexcept { return filled_ ^ freed_; }

    std::uint32_t sent_ = 0;
    std::uint32_t taken_ = 0;
    lane newest_ = 0;              // no message in the channel belongs to a later lane
    bool has_unordered_ = false;   // if false, no message in the channel is unordered
    bool is_of_one_lane_ = false;  // if true, all messages in the channel belong to the newest lane
    std::uint32_t latest_buffer_ = Buffers;
    std::uint32_t filled_ = 0;
    std::uint32_t freed_ = 0;
    std::array<sender, Cells> in_cells_{};
    std::array<sender, Buffers> in_buffers_{};
};

/// Whether a receiver takes a message out of its cell although nobody has asked for its lane: it keeps a few such
/// messages, but takes in everything up to an urgent one. An urgent number that was passed long ago has no effect.
template <std::uint32_t Cells>
[[nodiscard]] constexpr bool takes_early(std::size_t kept, std::size_t max_kept, std::uint32_t number,
                                         std::uint32_t urgent) noexcept {
    return kept < max_kept || urgent - number <= Cells;
}

}  // namespace allfold::detail
