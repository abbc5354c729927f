// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/channel.hpp"
#include "allfold/transport/detail/copy.hpp"
#include "allfold/transport/detail/distance.hpp"
#include "allfold/transport/detail/flow_control.hpp"
#include "allfold/transport/detail/rank_board.hpp"

/// @file
/// A rank's view of its pair of channels with one peer: how messages are put in and taken out.

namespace allfold::detail {

class thread_link {
  public:
    thread_link(int peer, channel& out, channel& in, rank_board& board_of_peer, std::size_t eager_bytes,
                const far_limits& limits)
        : peer_(peer), eager_bytes_(eager_bytes), out_(out), in_(in), board_of_peer_(board_of_peer), far_(limits) {}

    [[nodiscard]] int peer() const noexcept { return peer_; }
    /// Called after making news visible to the peer.
    [[gnu::always_inline]] void ring() noexcept { board_of_peer_.bell.ring(); }
    [[nodiscard]] bool peer_has_departed() const noexcept {
        return board_of_peer_.departed.load(std::memory_order_acquire);
    }

    enum class posting : std::uint8_t { refused, copied, lent };
    posting post(lane on, const outgoing& message);
    /// Whether the next `bytes` bytes for the peer are for a core that is far away.
    [[nodiscard]] bool is_far(std::size_t bytes) noexcept { return distance_.is_far(bytes, out_.taken, far_); }
    [[nodiscard]] bool was_far() const noexcept { return distance_.was_far(); }
    /// Posts a message that is not urgent: `write(destination)` writes it to a cell or a buffer. Returns false if it
    /// has to be posted the general way. `waits`: this rank posts nothing more before it waits.
    template <class Write>
    [[nodiscard, gnu::always_inline]] bool post_copy(sender of, std::uint32_t signature, std::size_t bytes, bool waits,
                                                     const Write& write) {
        if (!posted_.has_cell() || posted_.overtakes(of)) [[unlikely]]
            return false;
        if (bytes <= inline_bytes) [[likely]] {
            post_in_cell(of, signature, bytes, waits, write);
            return true;
        }
        return posted_.has_buffer() && post_in_buffer(of, signature, bytes, write);
    }
    /// The same for several in a row: asks the channel if there seems to be no room.
    template <class Write>
    [[nodiscard, gnu::always_inline]] bool write_copied(sender of, std::uint32_t signature, std::size_t bytes,
                                                        const Write& write) {
        if (bytes > inline_bytes || !posted_.has_cell() || posted_.overtakes(of)) [[unlikely]] {
            const Write in_memory = write;  // a copy, so that the original stays in registers
            return write_after_asking(of, signature, bytes, in_memory);
        }
        post_in_cell(of, signature, bytes, false, write);
        return true;
    }
    /// While this rank waits for its peer: claims the lines of the buffer that it fills next, which the peer read some
    /// messages ago. Two nearby cores, AMD Zen 4: all_reduce of 1 KiB takes 0.79x the time, of 2 and 4 KiB 0.82x, a
    /// round trip of 4 KiB 0.63x; 256 bytes 1.0x. Claiming in pieces of 64 bytes to 1 KiB: the same. Of longer
    /// messages than 8 KiB only the beginning is claimed: the rest would keep the peer from reading what has just been
    /// sent to it. Two nearby cores, AMD Zen 5, 4 KiB relative to all: of 16 KiB all_reduce takes 0.8x the time,
    /// broadcast 0.72x, a round trip 0.92x; of 32 KiB 0.94x to 1.0x; of 8 KiB all_reduce takes 0.9x, but a round trip
    /// 1.2x. Two distant cores: 0.92x to 1.05x.
    void prepare_buffer() noexcept {
        if (unprepared_ != 0 && posted_.has_buffer()) [[unlikely]]
            claim_prepared_buffer();
    }
    [[nodiscard]] bool all_is_taken() const noexcept {
        return out_.taken.load(std::memory_order_acquire) == posted_.sent();
    }

    [[nodiscard]] bool has_next() const noexcept { return next().has(received_ + 1); }
    static constexpr int poll_spins = 32;  // spins
    /// Spins for a moment, or until the next message is in.
    void poll_briefly() const noexcept {
        for (int i = 0; i < poll_spins && !has_next(); ++i) relax();
    }
    [[nodiscard]] const cell& next() const noexcept { return in_.cells[received_ % cells_of_a_channel]; }
    /// Whether to take out the next message although nobody has asked for its lane, when `kept` messages are kept
    /// already.
    [[nodiscard]] bool takes_early(std::size_t kept) const noexcept {
        return detail::takes_early<cells_of_a_channel>(kept, max_kept_early, received_ + 1,
                                                       in_.urgent.load(std::memory_order_acquire));
    }
    [[nodiscard]] bool is_urgent() const noexcept { return takes_early(max_kept_early); }
    /// Locates the next message, if it belongs to this lane and was copied when it was posted.
    [[nodiscard]] bool look_at_next(lane on, message_in_place& here) const noexcept {
        return next().on == on && next().locate(here);
    }
    /// Prefetches the message after the next one while this rank looks at the next one: its cell or, if both are in
    /// buffers and it has arrived too, its lines. A halo of six faces of 4 bytes takes 0.87x the time, of 64 bytes
    /// 0.93x. Together with `claim_buffer`, 64 messages of 512 bytes to 1 KiB each way take 0.93x to 0.96x, alone
    /// 0.97x.
    void fetch_one_after() const noexcept {
        constexpr std::size_t max_bytes = 1024;
        const cell& later = in_.cells[(received_ + 1) % cells_of_a_channel];
        if (next().news.load(std::memory_order_relaxed).how != transfer::in_buffer)  // looking costs a line
            return __builtin_prefetch(&later);
        if (!later.has(received_ + 2) || later.news.load(std::memory_order_relaxed).how != transfer::in_buffer) return;
        const auto where = later.reference<packed_message>();
        fetch_lines(where.data, std::min(where.bytes, max_bytes));
    }
    /// Calls `use(data)` where the next message lies, if it has arrived and is as expected, and then releases it.
    template <class Use>
    [[nodiscard, gnu::always_inline]] bool use_next(lane on, std::uint32_t signature, std::size_t bytes, Use use) {
        const cell& c = next();
        const cell_news news = c.news.load(std::memory_order_acquire);
        if (news.number != static_cast<std::uint16_t>(received_ + 1) || c.on != on || c.signature != signature)
            return false;
        const bool is_in_cell = news.how == transfer::in_cell && news.length == bytes;
        const std::byte* const data = is_in_cell ? c.payload : in_buffer(news, bytes);
        if (data == nullptr) return false;
        use(data);
        if (is_in_cell) [[likely]]
            empty_cell(news);
        else
            take_next();
        return true;
    }
    /// Releases the next message.
    void take_next() noexcept {
        const cell& c = next();
        if (c.news.load(std::memory_order_relaxed).how == transfer::in_buffer) {
            freed_ ^= 1u << c.reference<packed_message>().buffer;
            in_.freed.store(freed_, std::memory_order_release);
        }
        empty_cell();
    }
    /// The contents of the next cell have been taken out: it can be reused at once.
    void empty_cell() noexcept { empty_cell(next().news.load(std::memory_order_relaxed)); }
    void free_buffer(std::uint32_t buffer) noexcept {
        freed_ ^= 1u << buffer;
        in_.freed.store(freed_, std::memory_order_release);
        ring();
    }

  private:
    template <class Write>
    [[gnu::always_inline]] void post_in_cell(sender of, std::uint32_t signature, std::size_t bytes, bool waits,
                                             const Write& write) {
        cell& c = out_.cells[posted_.sent() % cells_of_a_channel];
        write(destination(c.payload));
        show(c, of, signature, transfer::in_cell, static_cast<std::uint8_t>(bytes));
        claim_cells(waits, bytes);
    }
    template <class Write>
    [[nodiscard, gnu::always_inline]] bool post_in_buffer(sender of, std::uint32_t signature, std::size_t bytes,
                                                          const Write& write) {
        const bool streams = streams_to_peer(bytes);
        const packed_message where = fill_buffer(of, bytes, streams);
        write(destination(where.data, streams));
        show_buffer(out_.cells[posted_.sent() % cells_of_a_channel], of, signature, where, streams);
        return true;
    }
    template <class Write>
    [[nodiscard, gnu::noinline]] bool write_after_asking(sender of, std::uint32_t signature, std::size_t bytes,
                                                         const Write& write) {
        return finds_cell() && (bytes <= inline_bytes || finds_buffer()) &&
               post_copy(of, signature, bytes, false, write);
    }
    /// Where the next message lies, if it has this length and lies in a buffer.
    [[nodiscard, gnu::noinline]] const std::byte* in_buffer(cell_news news, std::size_t bytes) const noexcept {
        if (news.how != transfer::in_buffer) return nullptr;
        const auto where = next().reference<packed_message>();
        return where.bytes == bytes ? where.data : nullptr;
    }
    [[gnu::noinline]] void claim_prepared_buffer() noexcept {
        constexpr std::size_t lines = 256, longest_claimed = std::size_t{8} << 10, of_longer = std::size_t{4} << 10;
        prepared_ = posted_.free_buffer();
        const channel::buffer& next = out_.buffers[prepared_];
        const std::size_t bytes = std::exchange(unprepared_, 0);
        const std::size_t most = std::min(next.room, bytes <= longest_claimed ? bytes : of_longer);
        for (std::size_t at = 0; at < most && !has_next(); at += lines)
            claim_lines(next.data + at, std::min(lines, most - at));
    }
    [[gnu::always_inline]] void empty_cell(cell_news news) noexcept {
        if (outdated_ > 0)
            --outdated_;
        else
            posted_.update_from_last_byte(static_cast<std::uint8_t>(news.taken), news.freed);
        in_.taken.store(++received_, std::memory_order_release);
        if (news.how == transfer::in_cell) __builtin_prefetch(line_of(in_, received_ + lines_ahead));
        ring();  // the peer may be waiting for a cell
    }
    /// Publishes a message that has been written to a buffer.
    [[gnu::noinline]] void show_buffer(cell& c, sender of, std::uint32_t signature, const packed_message& where,
                                       bool streams) noexcept {
        if (streams) finish_streams();
        c.refer_to(where);
        show(c, of, signature, transfer::in_buffer, 0);
        claim_buffer();
    }
    /// Publishes a cell that has been filled.
    [[gnu::always_inline]] void show(cell& c, sender of, std::uint32_t signature, transfer how,
                                     std::uint8_t length) noexcept {
        c.on = of.on;
        c.signature = signature;
        publish(c, posted_.post(of), how, length);
        ring();
    }
    void publish(cell& c, std::uint32_t number, transfer how, std::uint8_t length) noexcept {
        c.news.store(cell_news::of(number, how, length, received_, freed_), std::memory_order_release);
    }
    /// Claims upcoming cells: a few at once if more messages follow, the next one if this rank waits. Not if they take
    /// two lines each and this rank waits after each of them (1.1x to 1.3x the time). Two nearby (distant) cores, per
    /// message: 64 messages of 8 bytes each way take 0.8x (0.6x) the time, of 64 bytes 0.8x (0.65x), a halo of six
    /// faces 0.83x (0.8x), a round trip of 8 bytes 0.84x (0.9x), of 64 bytes 0.95x, all_reduce of 8 bytes 0.9x (0.8x).
    /// Claiming 8 or 16 at once: 1.0x to 1.2x.
    [[gnu::always_inline]] void claim_cells(bool waits, std::size_t bytes) noexcept {
        constexpr std::uint32_t few = 4;
        const bool is_one_line = bytes <= cell::in_first_line;
        if (waits) {
            if (is_one_line && posted_.has_cell()) next_cell(0).claim(bytes);
        } else if (posted_.sent() % few == 0 && posted_.has_cells(few)) {
            const bool are_answered = received_ == std::exchange(received_at_claim_, received_) + few;
            for (std::uint32_t i = 0; i < few && (is_one_line || !are_answered); ++i) next_cell(i).claim(bytes);
        }
    }
    /// Claims the buffer for the next message, if this rank posts one after another. 64 messages each way between two
    /// nearby (distant) cores: 512 bytes take 0.8x the time, 1 KiB 0.9x (0.85x), 2 KiB 0.8x (1.05x), 4 KiB 0.97x
    /// (1.6x). Of longer ones, only the first lines are prefetched: 4 KiB 0.95x.
    void claim_buffer() noexcept {
        constexpr std::size_t max_bytes = 2304;
        if (!is_back_to_back_ || !posted_.has_buffer()) return;
        const channel::buffer& next = out_.buffers[posted_.free_buffer()];
        if (unprepared_ <= max_bytes)
            claim_lines(next.data, std::min(next.room, unprepared_));
        else
            fetch_lines_to_write(next.data, std::min(next.room, max_bytes));
    }
    [[nodiscard]] cell& next_cell(std::uint32_t i) noexcept {
        return out_.cells[(posted_.sent() + i) % cells_of_a_channel];
    }
    [[nodiscard]] bool finds_cell() noexcept {
        if (!posted_.has_cell()) ask_channel();
        return posted_.has_cell();
    }
    [[nodiscard]] bool finds_buffer() noexcept {
        if (!posted_.has_buffer()) ask_channel();
        return posted_.has_buffer();
    }
    /// Finds out what has become of the messages sent, at the cost of a line that the peer writes.
    void ask_channel() noexcept {
        const std::uint32_t taken = out_.taken.load(std::memory_order_acquire);
        distance_.note(taken);
        posted_.update(taken, out_.freed.load(std::memory_order_acquire));
        outdated_ = cells_of_a_channel;
    }
    [[gnu::cold]] void call_for_cell() noexcept;

    /// Whether a message that would be lent is better copied, because its reader is far away. Only into the first few
    /// buffers, so that long messages do not take up more memory. On AMD Zen 4, permute takes 0.36x the time at 512
    /// KiB, 0.46x at 4 MiB; scatter of 4 MiB 0.44x, all_to_all 0.5x.
    [[nodiscard]] bool is_better_copied(const outgoing& message) noexcept {
        constexpr std::size_t max_bytes = std::size_t{4} << 20;
        constexpr std::uint32_t buffers = 4;
        const auto has_room = [&] { return posted_.has_buffer() && posted_.free_buffer() < buffers; };
        if (!message.copyable || message.bytes > max_bytes || !is_far(message.bytes)) return false;
        if (!has_room()) ask_channel();
        return has_room();
    }
    /// Whether a message of this length is copied with streaming stores.
    [[nodiscard]] bool streams_to_peer(std::size_t bytes) noexcept {
        return is_far(bytes) && bytes >= far_.min_streamed;
    }
    [[nodiscard]] transfer post_packed(cell& c, sender of, const outgoing& message);
    [[nodiscard]] packed_message fill_buffer(sender of, std::size_t bytes, bool streams);
    [[gnu::cold]] static void make_room(channel::buffer& in, std::size_t bytes);

    /// How far ahead cells that will be read soon are prefetched from the other core. 64 messages of 8 bytes each way
    /// between two distant cores take 0.92x the time per message.
    static constexpr std::uint32_t lines_ahead = 4;
    [[nodiscard]] static const std::byte* line_of(const channel& c, std::uint32_t n) noexcept {
        return reinterpret_cast<const std::byte*>(&c.cells[n % cells_of_a_channel]);
    }

    int peer_;
    std::size_t eager_bytes_;
    channel& out_;
    channel& in_;
    rank_board& board_of_peer_;
    posted_messages<cells_of_a_channel, buffers_of_a_channel> posted_;
    std::uint32_t received_ = 0;
    std::uint32_t received_at_claim_ = 0;  // when cells were last claimed for more posts in a row
    std::uint32_t outdated_ = 0;           // upcoming cells that may report less than the channel already has
    std::uint32_t called_ = 0;             // the last message for which this rank has called for a cell
    std::uint32_t freed_ = 0;
    std::uint32_t prepared_ = buffers_of_a_channel;  // the claimed buffer, to be filled next; none
    std::size_t unprepared_ = 0;  // length of the message that last filled a buffer, if this rank has not waited since
    bool is_back_to_back_ = false;  // nor between that message and the one before
    far_limits far_;
    distance distance_;
};

inline thread_link::posting thread_link::post(lane on, const outgoing& message) {
    const sender of{on, message.unordered};
    const bool is_urgent = posted_.overtakes(of);
    if (!finds_cell()) {
        if (is_urgent) call_for_cell();
        return posting::refused;
    }
    cell& c = out_.cells[posted_.sent() % cells_of_a_channel];
    transfer how = transfer_of(message, eager_bytes_, transfer::in_buffer);
    if (how == transfer::lent && is_better_copied(message)) how = transfer::in_buffer;
    std::uint8_t length = 0;
    if (how == transfer::in_cell) {
        length = static_cast<std::uint8_t>(message.bytes);
        pack(message.parts, message.alignment, c.payload);
    } else if (how == transfer::lent) {
        c.lend(message, 1);
    } else if (how = post_packed(c, of, message); how == transfer::nothing) {
        return posting::refused;
    }
    c.on = on;
    c.signature = message.signature;
    const std::uint32_t number = posted_.post(of);
    if (is_urgent) [[unlikely]]
        out_.urgent.store(number, std::memory_order_relaxed);
    publish(c, number, how, length);
    ring();
    if (how == transfer::in_buffer) claim_buffer();
    return how == transfer::lent ? posting::lent : posting::copied;
}

/// Called once per message: the peer then takes out all that the cells hold now, so there will be room.
inline void thread_link::call_for_cell() noexcept {
    if (called_ == posted_.sent() + 1) return;
    called_ = posted_.sent() + 1;
    out_.urgent.store(called_, std::memory_order_release);
    board_of_peer_.is_called.store(true, std::memory_order_release);
    ring();
}

/// Returns how the message travels; `nothing` if there is no room.
inline transfer thread_link::post_packed(cell& c, sender of, const outgoing& message) {
    packed_message where{nullptr, message.bytes, 0};
    transfer how = transfer::in_buffer;
    const bool streams = streams_to_peer(message.bytes);
    if (finds_buffer()) {
        where = fill_buffer(of, message.bytes, streams);
    } else if (posted_.overtakes(of)) {
        how = transfer::owned;
        where.data = allocate_message(message.bytes);
    } else {
        return transfer::nothing;
    }
    pack(message.parts, message.alignment, {where.data, streams});
    if (streams) finish_streams();
    c.refer_to(where);
    return how;
}

/// Streaming stores need no lines to be claimed, so `unprepared_` is 0 after a message that was written with them.
inline packed_message thread_link::fill_buffer(sender of, std::size_t bytes, bool streams) {
    const std::uint32_t prepared = std::exchange(prepared_, buffers_of_a_channel);
    const std::uint32_t free = prepared < buffers_of_a_channel ? prepared : posted_.free_buffer();
    channel::buffer& filled = out_.buffers[free];
    if (filled.data == nullptr || filled.room < bytes) make_room(filled, bytes);
    posted_.fill_buffer(free, of);
    is_back_to_back_ = std::exchange(unprepared_, streams ? 0 : bytes) != 0;
    return {filled.data, bytes, free};
}

inline void thread_link::make_room(channel::buffer& in, std::size_t bytes) {
    const std::size_t room = std::bit_ceil(bytes);
    std::byte* const larger = allocate_message(room);
    free_message(std::exchange(in.data, larger));
    in.room = room;
}

}  // namespace allfold::detail
