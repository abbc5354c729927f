// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "allfold/data/detail/heap_array.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/bulletin.hpp"
#include "allfold/transport/detail/channel.hpp"
#include "allfold/transport/detail/notice_board.hpp"
#include "allfold/transport/detail/thread_link.hpp"

/// @file
/// A message between threads, as held by its receiver.

namespace allfold::detail {

/// Shows the other ranks whether this rank is using memory that they have lent: a rank that aborts waits for all that
/// are.
class borrower {
  public:
    explicit borrower(std::atomic<int>& sign) : sign_(sign) {}
    void begin() noexcept {
        if (count_++ == 0) sign_.store(1, std::memory_order_seq_cst);
    }
    void end() noexcept {
        if (--count_ == 0) sign_.store(0, std::memory_order_release);
    }

  private:
    std::atomic<int>& sign_;
    int count_ = 0;
};

class thread_arrival {
  public:
    thread_arrival() = default;
    thread_arrival(thread_arrival&& other) noexcept { take_over(other); }
    thread_arrival& operator=(thread_arrival&& other) noexcept {
        if (this != &other) {
            release();
            take_over(other);
        }
        return *this;
    }
    ~thread_arrival() { release(); }

    [[nodiscard]] std::uint32_t signature() const noexcept { return signature_; }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
    [[nodiscard]] std::byte* packed() const noexcept {
        return how_ == transfer::in_cell ? const_cast<std::byte*>(here_) : packed_;
    }
    [[nodiscard]] std::span<const part> parts() const noexcept { return {loan_.parts, loan_.count}; }

    [[nodiscard]] bool is_lent() const noexcept { return how_ == transfer::lent; }
    /// Takes the next message of a link out of its cell. Called on an arrival that holds nothing yet.
    void take(thread_link& from) noexcept;
    /// The same for a notice that this rank has not read.
    void take(notice& from, int rank) noexcept;
    /// The same for what has been found on a bulletin.
    void take(bulletin_reader& from, int sender, const cell& found) noexcept;
    /// Moves it out of its sender's buffer into memory of its own. If that throws, it stays there.
    void leave_buffer() {
        if (how_ != transfer::in_buffer) return;
        std::byte* const own = allocate_message(bytes_);
        std::memcpy(own, packed_, bytes_);
        link_->free_buffer(buffer_);
        packed_ = own;
        how_ = transfer::owned;
    }
    /// The same for a message that is lent, whose parts are aligned there.
    void leave_lender(std::size_t alignment) {
        if (how_ != transfer::lent) return;
        std::byte* const own = allocate_message(bytes_);
        pack(parts(), alignment, destination(own));
        give_back();
        packed_ = own;
        how_ = transfer::owned;
    }
    /// Lent memory is in use from now on, as `by` has announced already; when that ends, `lender` is rung.
    void used_by(borrower& by, const bell_pull& lender) noexcept {
        user_ = &by;
        lender_ = &lender;
    }

  private:
    void take_over(thread_arrival& other) noexcept {
        how_ = std::exchange(other.how_, transfer::nothing);
        signature_ = other.signature_;
        bytes_ = other.bytes_;
        buffer_ = other.buffer_;
        rank_ = other.rank_;
        link_ = other.link_;
        notice_ = other.notice_;
        bulletins_ = other.bulletins_;
        lender_ = other.lender_;
        user_ = std::exchange(other.user_, nullptr);
        packed_ = std::exchange(other.packed_, nullptr);
        loan_ = std::exchange(other.loan_, loan{});
        if (how_ == transfer::in_cell) copy_cell(here_, other.here_, bytes_);
    }
    /// A copy of fixed length takes only a few instructions.
    static void copy_cell(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
        if (bytes <= 48)
            std::memcpy(to, from, 48);
        else
            std::memcpy(to, from, inline_bytes);
    }
    void release() noexcept {
        if (const transfer how = std::exchange(how_, transfer::nothing);
            how != transfer::nothing && how != transfer::in_cell)
            release_memory(how);
    }
    [[gnu::noinline]] void release_memory(transfer how) noexcept {
        switch (how) {
            case transfer::in_buffer: link_->free_buffer(buffer_); break;
            case transfer::on_notice: notice_->release(rank_); break;
            case transfer::on_bulletin: bulletins_->release(rank_, buffer_); break;
            case transfer::owned: free_message(packed_); break;
            default: give_back(); break;
        }
    }
    void give_back() noexcept {
        if (user_ == nullptr) return;  // never delivered: its world is broken, and its sender may be gone
        const bool is_last = loan_.lent->fetch_sub(1, std::memory_order_release) == 1;
        user_->end();
        if (is_last) lender_->ring();
    }

    transfer how_ = transfer::nothing;
    std::uint32_t signature_ = 0;
    std::uint32_t buffer_ = 0;  // or the number on a bulletin
    int rank_ = 0;              // this rank; on a bulletin, the sender
    std::size_t bytes_ = 0;
    thread_link* link_ = nullptr;
    notice* notice_ = nullptr;  // instead of a link
    bulletin_reader* bulletins_ = nullptr;
    const bell_pull* lender_ = nullptr;
    borrower* user_ = nullptr;
    std::byte* packed_ = nullptr;
    loan loan_{};
    alignas(inline_alignment) std::byte here_[inline_bytes];
};

inline void thread_arrival::take(thread_link& from) noexcept {
    const cell& c = from.next();
    const cell_news news = c.news.load(std::memory_order_relaxed);
    how_ = news.how;
    signature_ = c.signature;
    link_ = &from;
    notice_ = nullptr;
    if (how_ == transfer::in_cell) {
        bytes_ = news.length;
        copy_cell(here_, c.payload, bytes_);
    } else if (how_ == transfer::lent) {
        loan_ = c.reference<loan>();
        bytes_ = c.reference<std::size_t>(sizeof loan_);
    } else {
        const auto where = c.reference<packed_message>();
        packed_ = where.data;
        bytes_ = where.bytes;
        buffer_ = where.buffer;
    }
    from.empty_cell();
}

inline void thread_arrival::take(notice& from, int rank) noexcept {
    how_ = from.how();
    signature_ = from.signature();
    notice_ = &from;
    rank_ = rank;
    bytes_ = from.bytes_for(rank);
    if (how_ == transfer::in_cell)
        copy_cell(here_, from.packed_for(rank), bytes_);
    else if (how_ == transfer::lent)
        loan_ = from.lent_to(rank);
    else
        packed_ = from.packed_for(rank);
    from.take(rank, how_ == transfer::on_notice);
}

inline void thread_arrival::take(bulletin_reader& from, int sender, const cell& found) noexcept {
    message_in_place there{};
    static_cast<void>(from.locate(found, there));
    signature_ = found.signature;
    bytes_ = there.bytes;
    how_ = found.news.load(std::memory_order_relaxed).how;
    if (how_ == transfer::lent) {
        loan_ = found.reference<loan>();
        bytes_ = found.reference<std::size_t>(sizeof loan_);
        from.take(sender);
    } else if (how_ == transfer::in_cell) {
        copy_cell(here_, there.data, bytes_);
        from.take(sender);
    } else {
        how_ = transfer::on_bulletin;
        packed_ = there.data;
        bulletins_ = &from;
        rank_ = sender;
        buffer_ = from.keep(sender);
    }
}

/// The messages of one peer that arrived before their lane asked for them. With thousands of operations in flight there
/// are as many of them, so lanes are spread over lists.
class early_arrivals {
  public:
    early_arrivals() = default;
    early_arrivals(const early_arrivals&) = delete;
    early_arrivals& operator=(const early_arrivals&) = delete;
    ~early_arrivals() {
        for (const list& each : lists_) free(each.first);
        free(idle_);
    }

    [[nodiscard]] std::size_t count() const noexcept { return count_; }
    void keep_next(thread_link& from) {
        if (count_ >= most_per_list * lists_.size()) spread();
        early* const kept = idle_ != nullptr ? std::exchange(idle_, idle_->next) : new early;
        kept->on = from.next().on;
        kept->message.take(from);
        list_of(kept->on).append(kept);
        ++count_;
        // Nobody knows when it will be received, and until then no collective would wait for room.
        if (is_of_messages(kept->on)) kept->message.leave_buffer();
    }
    /// Moves the first message on this lane to `into`; false if there is none. Needs a message on any lane.
    [[nodiscard]] bool hand_out(lane on, thread_arrival& into) {
        list& here = list_of(on);
        early** link = &here.first;
        while (*link != nullptr && (*link)->on != on) link = &(*link)->next;
        early* const found = *link;
        if (found == nullptr) return false;
        into = std::move(found->message);
        *link = found->next;
        if (here.end == &found->next) here.end = link;
        found->next = std::exchange(idle_, found);
        --count_;
        return true;
    }
    [[nodiscard]] bool has_loan() const noexcept {
        return std::any_of(lists_.begin(), lists_.end(), [](const list& each) { return has_loan(each.first); });
    }

  private:
    struct early {
        lane on = 0;
        thread_arrival message;
        early* next = nullptr;
    };
    /// Oldest first.
    struct list {
        early* first = nullptr;
        early** end = &first;

        void append(early* last) noexcept {
            last->next = nullptr;
            *end = last;
            end = &last->next;
        }
    };
    static constexpr std::size_t most_per_list = 8;

    [[nodiscard]] list& list_of(lane on) noexcept { return lists_[on & (lists_.size() - 1)]; }
    void spread() {
        heap_array<list> more(std::max<std::size_t>(4 * lists_.size(), 1));
        for (list& each : lists_)
            while (each.first != nullptr) {
                early* const moved = std::exchange(each.first, each.first->next);
                more[moved->on & (more.size() - 1)].append(moved);
            }
        lists_ = std::move(more);
    }
    [[nodiscard]] static bool has_loan(const early* each) noexcept {
        while (each != nullptr && !each->message.is_lent()) each = each->next;
        return each != nullptr;
    }
    static void free(early* list) noexcept {
        while (list != nullptr) delete std::exchange(list, list->next);
    }

    heap_array<list> lists_;  // by lane; a power of two
    early* idle_ = nullptr;   // to be reused
    std::size_t count_ = 0;
};

}  // namespace allfold::detail
