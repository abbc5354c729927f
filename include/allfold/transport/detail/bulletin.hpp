// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <utility>

#include "allfold/data/detail/heap_array.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/channel.hpp"
#include "allfold/transport/detail/copy.hpp"
#include "allfold/transport/detail/distance.hpp"
#include "allfold/transport/detail/stream.hpp"

/// @file
/// Messages from one rank to all others, if there are few ranks: each is written once, and read in place by all of
/// them. Through channels it would be written once per reader, and a core shared by several ranks would fetch it once
/// for each of them. All readers get the same, or each a different part; or all are lent memory that lies elsewhere.
///
/// A bulletin is a ring of a few cells, each reused once all ranks have read it. Nobody ever waits for one: a sender
/// that finds none free posts in channels. To keep messages in order all the same, a sender posts nothing here once it
/// has posted in a channel on the same lane, and readers look here first, and once more when they have found something
/// in a channel. A reader finds its message among those of other lanes, so no message has to be taken out early.

namespace allfold::detail {

class alignas(line_bytes) bulletin {
  public:
    static constexpr int max_ranks = 16;
    static constexpr std::uint32_t cells = 8;

    bulletin() = default;
    bulletin(const bulletin&) = delete;
    bulletin& operator=(const bulletin&) = delete;
    ~bulletin() {
        for (const channel::buffer& each : buffers_) free_message(each.data);
    }

    // For the owner. `all`: the bulletins of all ranks.

    [[nodiscard]] bool has_room(std::span<const bulletin> all, std::size_t self) noexcept {
        if (posted_ - taken_by_all_ == cells) ask_readers(all, self);
        return posted_ - taken_by_all_ < cells;
    }
    /// Whether the next `bytes` bytes, which are for all, are for a core that is far away. Each call asks about one
    /// reader, in turn; about none if it does not matter for so many bytes. P = 4 on two cores of AMD Zen 4, relative
    /// to messages through the caches: all_reduce of 4 KiB takes 0.58x the time, 16 KiB 0.45x, 64 KiB 0.41x; broadcast
    /// of 4 to 256 KiB 0.75x to 0.8x.
    [[nodiscard]] bool is_far(std::span<const bulletin> all, std::size_t self, std::size_t bytes,
                              const far_limits& limits) noexcept {
        if (!distance::matters(bytes, limits)) return false;
        asked_ = (asked_ + 1) % all.size();
        if (asked_ == self) asked_ = (asked_ + 1) % all.size();
        const bool is_far = distances_[asked_].is_far(bytes, all[asked_].taken_[self], limits);
        far_ = (far_ & ~(1u << asked_)) | (is_far ? 1u << asked_ : 0u);
        return far_ != 0;
    }
    /// The latest result.
    [[nodiscard]] bool was_far() const noexcept { return far_ != 0; }
    /// Posts a message, which is copied if it may be. Requires that there is room. Returns whether it is lent instead,
    /// to this many readers.
    bool post(lane on, const outgoing& message, int readers, bool streams) {
        cell& c = cells_[++posted_ % cells];
        const transfer how = transfer_of(message, message.bytes, transfer::in_buffer);
        if (how == transfer::in_cell)
            pack(message.parts, message.alignment, c.payload);
        else if (how == transfer::lent)
            c.lend(message, readers);
        else
            c.refer_to(packed_message{fill_buffer(message, streams), message.bytes, 0});
        show(c, on, message.signature, how, how == transfer::in_cell ? message.bytes : 0);
        return how == transfer::lent;
    }
    /// Posts a message for each reader: `write(message, memory)` writes one of those in the list, each of which has
    /// `peer` and `bytes`. Requires that there is room.
    template <class Messages, class Write>
    void post_each(lane on, std::uint32_t signature, const Messages& to, bool streams, Write write) {
        std::size_t bytes = max_ranks * sizeof(slice);
        for (const auto& each : to) bytes += align_up(each.bytes, buffer_alignment);
        std::byte* const data = make_room(++posted_, bytes);
        std::size_t at = max_ranks * sizeof(slice);
        for (const auto& each : to) {
            ::new (static_cast<void*>(data + static_cast<std::size_t>(each.peer) * sizeof(slice)))
                slice{at, each.bytes};
            write(each, destination(data + at, streams));
            at += align_up(each.bytes, buffer_alignment);
        }
        if (streams) finish_streams();
        cell& c = cells_[posted_ % cells];
        c.refer_to(packed_message{data, bytes, 0});
        show(c, on, signature, transfer::in_slices, 0);
    }
    /// Whether the reader that owns this bulletin has finished with all messages of `sender`.
    [[nodiscard]] bool has_taken_all_of(const bulletin& sender, std::size_t rank) const noexcept {
        return taken_[rank].load(std::memory_order_acquire) == sender.posted_;
    }
    /// Publishes that the owner, as a reader, has finished with all messages of `sender` up to number `number`.
    void report_taken(std::size_t sender, std::uint32_t number) noexcept {
        taken_[sender].store(number, std::memory_order_release);
    }

    // For readers

    /// Message number `number`; null if it has not been posted yet.
    [[nodiscard]] const cell* find(std::uint32_t number) const noexcept {
        const cell& c = cells_[number % cells];
        return c.has(number) ? &c : nullptr;
    }

    /// Where the part for one reader lies, if the message was copied when it was posted.
    [[nodiscard]] static bool locate(const cell& found, std::size_t reader, message_in_place& here) noexcept {
        if (found.news.load(std::memory_order_relaxed).how != transfer::in_slices) return found.locate(here);
        std::byte* const data = found.reference<packed_message>().data;
        const slice& own = *std::launder(reinterpret_cast<const slice*>(data + reader * sizeof(slice)));
        here = {data + own.begin, own.bytes, found.signature};
        return true;
    }

  private:
    /// What one reader gets.
    struct slice {
        std::size_t begin;
        std::size_t bytes;
    };

    void show(cell& c, lane on, std::uint32_t signature, transfer how, std::size_t bytes_in_cell) noexcept {
        c.on = on;
        c.signature = signature;
        c.news.store(cell_news::of(posted_, how, static_cast<std::uint8_t>(bytes_in_cell)), std::memory_order_release);
    }
    void ask_readers(std::span<const bulletin> all, std::size_t self) noexcept {
        std::uint32_t most_left = 0;
        for (std::size_t r = 0; r < all.size(); ++r)
            if (r != self)
                most_left = std::max(most_left, posted_ - all[r].taken_[self].load(std::memory_order_acquire));
        taken_by_all_ = posted_ - most_left;
    }
    [[nodiscard]] std::byte* fill_buffer(const outgoing& message, bool streams) {
        std::byte* const data = make_room(posted_, message.bytes);
        pack(message.parts, message.alignment, {data, streams});
        if (streams) finish_streams();
        return data;
    }
    [[nodiscard]] std::byte* make_room(std::uint32_t number, std::size_t bytes) {
        channel::buffer& filled = buffers_[number % cells];
        if (filled.data == nullptr || filled.room < bytes) {
            const std::size_t room = std::bit_ceil(bytes);
            std::byte* const larger = allocate_message(room);
            free_message(std::exchange(filled.data, larger));
            filled.room = room;
        }
        return filled.data;
    }

    std::uint32_t posted_ = 0;
    std::uint32_t taken_by_all_ = 0;  // a lower bound
    std::array<channel::buffer, cells> buffers_{};
    std::array<distance, max_ranks> distances_{};  // to each reader
    std::size_t asked_ = 0;                        // the reader asked about last
    std::uint32_t far_ = 0;                        // a bit for each reader that is far
    /// For each sender, up to which number the owner has taken its messages; on a line of its own.
    std::array<std::atomic<std::uint32_t>, max_ranks> taken_{};
    std::array<cell, cells> cells_;
};

/// What one rank has read of the bulletins of all ranks.
class bulletin_reader {
  public:
    bulletin_reader(std::span<bulletin> all, int self)
        : all_(all), self_(static_cast<std::size_t>(self)), read_(all.size()) {
        for (std::size_t r = 0; r < all.size(); ++r) read_[r].of = &all[r];
    }

    /// Whether there are any bulletins.
    [[nodiscard]] bool is_there() const noexcept { return !all_.empty(); }
    /// Whether `sender` has posted something that has not been found yet.
    [[nodiscard]] bool has_news(int sender) const noexcept {
        const reading& r = of(sender);
        return r.at(static_cast<std::uint32_t>(std::countr_one(r.gone))) != nullptr;
    }
    /// The message from `sender` on a lane; null if there is none yet.
    [[nodiscard]] const cell* find(int sender, lane on) noexcept {
        reading& r = of(sender);
        r.found = nothing;
        const cell* const next = r.at(0);
        if (next == nullptr) return nullptr;
        if (next->on != on || (r.gone & 1u) != 0) [[unlikely]]
            return find_behind(r, on);
        r.found = 0;
        return next;
    }
    /// Stores in `data`, in the order of ranks, where the oldest message of each other rank lies, from rank `sender`
    /// on, for as long as it is the same for all readers, on this lane, and as expected. Returns the first rank whose
    /// message is not. Called often.
    [[nodiscard]] std::size_t find_oldest(std::size_t sender, lane on, std::uint32_t signature, std::size_t bytes,
                                          std::byte** data) const noexcept {
        for (const std::size_t ranks = read_.size(); sender < ranks; ++sender) {
            if (sender == self_) continue;
            const reading& r = read_[sender];
            const cell* const next = r.at(0);
            if (next == nullptr || next->on != on || next->signature != signature || r.gone != 0) break;
            message_in_place here;
            if (!next->locate(here) || here.bytes != bytes) break;
            data[sender - (sender > self_ ? 1 : 0)] = here.data;
        }
        return sender;
    }
    /// Releases the oldest message of each other rank, after `find_oldest` has found them all.
    void take_oldest_of_all() noexcept {
        bulletin& own = all_[self_];
        for (std::size_t sender = 0, ranks = read_.size(); sender < ranks; ++sender)
            if (sender != self_) own.report_taken(sender, ++read_[sender].taken);
    }
    /// Where the message found lies, if it was copied when it was posted.
    [[nodiscard]] bool locate(const cell& found, message_in_place& here) const noexcept {
        return bulletin::locate(found, self_, here);
    }
    [[nodiscard]] bool has_found(int sender) const noexcept { return of(sender).found != nothing; }
    /// Keeps the message found last until `release`; returns its number.
    [[nodiscard]] std::uint32_t keep(int sender) noexcept {
        reading& r = of(sender);
        const std::uint32_t found = std::exchange(r.found, nothing);
        r.gone |= 1u << found;
        return r.taken + 1 + found;
    }
    void release(int sender, std::uint32_t number) noexcept {
        reading& r = of(sender);
        r.released |= 1u << (number - r.taken - 1);
        for (; (r.released & 1u) != 0; r.released >>= 1, r.gone >>= 1) ++r.taken;
        all_[self_].report_taken(static_cast<std::size_t>(sender), r.taken);
    }
    /// Whether this rank, if it left now, would leave unread a message that its sender lends.
    [[nodiscard, gnu::cold]] bool has_loan_of(int sender) const noexcept {
        const reading& r = of(sender);
        for (std::uint32_t i = 0; i < bulletin::cells; ++i)
            if (const cell* const c = r.at(i); c != nullptr && (r.gone >> i & 1u) == 0 &&
                                               c->news.load(std::memory_order_relaxed).how == transfer::lent)
                return true;
        return false;
    }
    /// Releases the message found last.
    void take(int sender) noexcept {
        reading& r = of(sender);
        if ((r.gone | r.found) != 0) [[unlikely]]
            return release(sender, keep(sender));
        r.found = nothing;
        all_[self_].report_taken(static_cast<std::size_t>(sender), ++r.taken);
    }

  private:
    static constexpr std::uint32_t nothing = bulletin::cells;

    struct reading {
        const bulletin* of = nullptr;
        std::uint32_t taken = 0;        // all messages up to this number have been taken
        std::uint32_t gone = 0;         // one bit for each message behind it that must not be found again,
        std::uint32_t released = 0;     // and for each that is not needed any more
        std::uint32_t found = nothing;  // index of the one found last

        [[nodiscard]] const cell* at(std::uint32_t i) const noexcept { return of->find(taken + 1 + i); }
    };

    [[nodiscard]] reading& of(int sender) const noexcept { return read_[static_cast<std::size_t>(sender)]; }
    [[nodiscard, gnu::cold]] static const cell* find_behind(reading& r, lane on) noexcept {
        for (std::uint32_t i = 0; i < bulletin::cells; ++i) {
            const cell* const c = r.at(i);
            if (c == nullptr) return nullptr;
            if (c->on != on || (r.gone >> i & 1u) != 0) continue;
            r.found = i;
            return c;
        }
        return nullptr;
    }

    std::span<bulletin> all_;
    std::size_t self_;
    heap_array<reading> read_;
};

}  // namespace allfold::detail
