// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <utility>

#include "allfold/data/detail/heap_array.hpp"
#include "allfold/schedule/step.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/channel.hpp"
#include "allfold/transport/detail/copy.hpp"
#include "allfold/transport/detail/flow_control.hpp"
#include "allfold/transport/detail/rank_board.hpp"
#include "allfold/transport/detail/thread_bell.hpp"

/// @file
/// Messages from one rank to many peers: each is written once, to memory of the sender, and read there by all of them.
/// Through channels it would be written once per peer, and the total memory would grow with the square of the number of
/// ranks.
///
/// A board has a few notices, each reused once all its readers are done with it. A message waits if its own lane and
/// older ones occupy that many; for those that later lanes occupy, the board gets more. So here, too, nothing on a
/// later lane blocks an older one (see flow_control.hpp), and no message has to be taken out early.

namespace allfold::detail {

/// A message to many ranks. The sender writes it while it has no readers; from then on each reader owns its two bits.
class notice {
  public:
    notice(int ranks, const bell_pull& bell_of_sender)
        : marks_((static_cast<std::size_t>(ranks) + 63) / 64), bell_(bell_of_sender) {}
    notice(const notice&) = delete;
    notice& operator=(const notice&) = delete;
    ~notice() { free_message(buffer_); }

    // For the sender

    /// The first reader that has neither finished with it nor left; -1 if there is none, so that it can be reused.
    [[nodiscard]] int first_reader(const rank_board* ranks) const noexcept {
        for (std::size_t w = 0; w < marks_.size(); ++w)
            for (std::uint64_t left = left_in(w); left != 0; left &= left - 1)
                if (const int rank = static_cast<int>(w) * 64 + std::countr_zero(left);
                    !ranks[rank].has_stopped_reading.load(std::memory_order_acquire))
                    return rank;
        return -1;
    }
    void write(sender of, const outgoing& message, std::span<const std::size_t> ends, const peers& to, int self,
               std::size_t eager_bytes);
    void show(std::uint32_t number, int self, int size) noexcept;
    [[nodiscard]] const sender& of() const noexcept { return of_; }

    // For readers. All but the first are for a rank that has not read it yet.

    [[nodiscard]] bool is_unread_by(int rank) const noexcept {
        return (mark_of(rank).unread.load(std::memory_order_acquire) & bit_of(rank)) != 0;
    }
    [[nodiscard]] lane on() const noexcept { return of_.on; }
    [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
    [[nodiscard]] std::uint32_t signature() const noexcept { return signature_; }
    [[nodiscard]] transfer how() const noexcept { return how_; }
    [[nodiscard]] std::size_t bytes_for(int rank) const noexcept {
        if (!is_for_each_) return bytes_;
        if (how_ != transfer::lent) return slice_of(index_of(rank)).bytes;
        return packed_bytes(parts_for(index_of(rank), {loan_.parts, loan_.count}, ends_), alignment_);
    }
    [[nodiscard]] std::byte* packed_for(int rank) noexcept {
        if (how_ == transfer::in_cell) return payload_;
        return is_for_each_ ? buffer_ + slice_of(index_of(rank)).begin : buffer_;
    }
    [[nodiscard]] loan lent_to(int rank) const noexcept {
        if (!is_for_each_) return loan_;
        const std::span<const part> parts = parts_for(index_of(rank), {loan_.parts, loan_.count}, ends_);
        return {parts.data(), parts.size(), loan_.lent};
    }
    /// Marks it as read by this rank; if `uses_it`, it stays in use until `release`.
    void take(int rank, bool uses_it) noexcept {
        mark& mine = mark_of(rank);
        if (uses_it) mine.in_use.fetch_or(bit_of(rank), std::memory_order_relaxed);
        mine.unread.fetch_and(~bit_of(rank), std::memory_order_acq_rel);
        bell_.ring();  // its sender may be waiting for it to become free
    }
    void release(int rank) noexcept {
        mark_of(rank).in_use.fetch_and(~bit_of(rank), std::memory_order_release);
        bell_.ring();
    }

    std::atomic<notice*> next{nullptr};  // on the same board

  private:
    /// One bit for each of 64 ranks.
    struct mark {
        std::atomic<std::uint64_t> unread{0};
        std::atomic<std::uint64_t> in_use{0};
    };
    [[nodiscard]] mark& mark_of(int rank) const noexcept { return marks_[static_cast<std::size_t>(rank) / 64]; }
    [[nodiscard]] static std::uint64_t bit_of(int rank) noexcept { return std::uint64_t{1} << rank % 64; }
    /// Loads `unread` first: a reader sets its bit in `in_use` before it clears the one in `unread`.
    [[nodiscard]] std::uint64_t left_in(std::size_t word) const noexcept {
        const std::uint64_t unread = marks_[word].unread.load(std::memory_order_acquire);
        return unread | marks_[word].in_use.load(std::memory_order_acquire);
    }
    /// What one reader gets, if readers get different messages. The buffer then begins with a list of these.
    struct slice {
        std::size_t begin;
        std::size_t bytes;
    };
    [[nodiscard]] slice& slice_of(std::size_t reader) const noexcept {
        return *std::launder(reinterpret_cast<slice*>(buffer_ + reader * sizeof(slice)));
    }
    [[nodiscard]] std::size_t index_of(int rank) const noexcept {
        return static_cast<std::size_t>(to_.index_of(rank, self_));
    }
    void make_room(std::size_t bytes) {
        if (buffer_ != nullptr && bytes <= room_) return;
        const std::size_t room = bytes < 2 * room_ ? 2 * room_ : bytes;
        std::byte* const larger = allocate_message(room);
        free_message(std::exchange(buffer_, larger));
        room_ = room;
    }
    void write_slices(const outgoing& message, std::span<const std::size_t> ends);

    heap_array<mark> marks_;
    const bell_pull& bell_;
    sender of_{};
    std::uint32_t number_ = 0;
    std::uint32_t signature_ = 0;
    transfer how_ = transfer::nothing;
    int self_ = 0;
    peers to_;
    std::size_t bytes_ = 0;
    std::size_t alignment_ = 1;
    loan loan_{};
    bool is_for_each_ = false;           // readers get different messages
    std::span<const std::size_t> ends_;  // then, if it is lent: where the parts for each reader end
    std::byte* buffer_ = nullptr;
    std::size_t room_ = 0;
    alignas(inline_alignment) std::byte payload_[inline_bytes];
};

inline void notice::write(sender of, const outgoing& message, std::span<const std::size_t> ends, const peers& to,
                          int self, std::size_t eager_bytes) {
    is_for_each_ = ends.size() > 1;
    how_ = transfer_of(message, eager_bytes, transfer::on_notice);
    if (is_for_each_ && how_ != transfer::lent) {
        write_slices(message, ends);
    } else if (how_ != transfer::lent) {
        if (how_ == transfer::on_notice) make_room(message.bytes);  // may throw; nothing has been shown then
        pack(message.parts, message.alignment, packed_for(0));
    }
    loan_ = {message.parts.data(), message.parts.size(), message.lent};
    ends_ = ends;
    of_ = of;
    to_ = to;
    self_ = self;
    bytes_ = message.bytes;
    alignment_ = message.alignment;
    signature_ = message.signature;
}

inline void notice::write_slices(const outgoing& message, std::span<const std::size_t> ends) {
    how_ = transfer::on_notice;
    const std::size_t first = align_up(ends.size() * sizeof(slice), buffer_alignment);
    make_room(first + message.bytes);
    pack(message.parts, message.alignment, buffer_ + first);
    std::size_t at = first, p = 0;
    for (std::size_t i = 0; i < ends.size(); ++i) {
        const std::size_t begin = align_up(at, message.alignment);
        for (at = begin; p < ends[i]; ++p) at = align_up(at, message.alignment) + message.parts[p].bytes;
        ::new (static_cast<void*>(buffer_ + i * sizeof(slice))) slice{begin, at - begin};
    }
}

/// Publishes it to its readers, each of which may use it from here on.
inline void notice::show(std::uint32_t number, int self, int size) noexcept {
    number_ = number;
    const int count = to_.count(self, size);
    if (how_ == transfer::lent) loan_.lent->fetch_add(count, std::memory_order_relaxed);
    int i = 0;
    for (std::size_t w = 0; w < marks_.size(); ++w) {
        std::uint64_t readers = 0;
        for (; i < count && static_cast<std::size_t>(to_.at(i, self)) / 64 == w; ++i)
            readers |= bit_of(to_.at(i, self));
        marks_[w].in_use.store(0, std::memory_order_relaxed);
        marks_[w].unread.store(readers, std::memory_order_release);
    }
}

/// The notices of one rank.
class alignas(line_bytes) notice_board {
  public:
    notice_board() = default;
    notice_board(const notice_board&) = delete;
    notice_board& operator=(const notice_board&) = delete;
    ~notice_board() {
        for (notice* each = first_.load(); each != nullptr;) {
            notice* const next = each->next.load();
            delete each;
            each = next;
        }
    }

    // For the owner

    /// A notice to write to, and then to `show`; null if there is none at present.
    [[nodiscard]] notice* find_free(sender of, int self, int size, const rank_board* ranks) {
        int in_use = 0;  // by messages that may make this one wait
        std::atomic<notice*>* last = &first_;
        for (notice* each = first_.load(std::memory_order_relaxed); each != nullptr;
             each = each->next.load(std::memory_order_relaxed)) {
            if (each->first_reader(ranks) < 0) return each;
            if (!may_be_overtaken(each->of(), of)) ++in_use;
            last = &each->next;
        }
        if (in_use >= max_notices) return nullptr;
        auto* const added = new notice(size, ranks[self].bell);
        last->store(added, std::memory_order_release);
        return added;
    }
    void show(notice& written, int self, int size) noexcept {
        written.show(++shown_, self, size);
        posted_.store(shown_, std::memory_order_release);
    }
    /// A rank that the owner waits for if it finds no free notice; -1 if it need not wait.
    [[nodiscard]] int slowest_reader(const rank_board* ranks) const noexcept {
        const notice* oldest = nullptr;
        for (const notice* each = first_.load(std::memory_order_relaxed); each != nullptr;
             each = each->next.load(std::memory_order_relaxed)) {
            if (each->first_reader(ranks) < 0) return -1;
            if (oldest == nullptr || is_later(oldest->number(), each->number())) oldest = each;
        }
        return oldest != nullptr ? oldest->first_reader(ranks) : -1;
    }

    // For readers

    [[nodiscard]] bool has_more_than(std::uint32_t passed) const noexcept {
        return posted_.load(std::memory_order_acquire) != passed;
    }
    /// The oldest notice on this lane that this rank has not read; null if there is none. If there is one, the caller
    /// takes it at once. All notices up to number `passed` have been read or are not for this rank.
    [[nodiscard]] notice* find(int rank, lane on, std::uint32_t& passed) const noexcept {
        const std::uint32_t posted = posted_.load(std::memory_order_acquire);
        if (posted == passed) return nullptr;
        notice* found = nullptr;
        int unread = 0;
        for (notice* each = first(); each != nullptr; each = each->next.load(std::memory_order_acquire)) {
            // One that is shown during this search could be found ahead of older ones that the search has missed.
            if (!each->is_unread_by(rank) || is_later(each->number(), posted)) continue;
            ++unread;
            if (each->on() == on && (found == nullptr || is_later(found->number(), each->number()))) found = each;
        }
        if (unread == (found != nullptr ? 1 : 0)) passed = posted;
        return found;
    }
    /// Whether this rank, if it left now, would leave unread a message that its sender lends.
    [[nodiscard]] bool lends_to(int rank) const noexcept {
        for (notice* each = first(); each != nullptr; each = each->next.load(std::memory_order_acquire))
            if (each->is_unread_by(rank) && each->how() == transfer::lent) return true;
        return false;
    }

  private:
    static constexpr int max_notices = 8;  // of one lane and older ones: as many as a bulletin has cells

    [[nodiscard]] notice* first() const noexcept { return first_.load(std::memory_order_acquire); }

    std::atomic<std::uint32_t> posted_{0};
    std::atomic<notice*> first_{nullptr};
    std::uint32_t shown_ = 0;
};

}  // namespace allfold::detail
