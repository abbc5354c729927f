// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <atomic>
#include <cstddef>
#include <list>
#include <new>
#include <span>
#include <utility>

#include "allfold/engine/detail/small_array.hpp"
#include "allfold/engine/operands.hpp"
#include "allfold/schedule/step.hpp"

/// @file
/// Runs a schedule that is a single step, whose messages are one block each: what short calls consist of, for which
/// walking through rounds, windows and slots would take longer than the messages.

namespace allfold::detail {

template <communicator Comm>
class short_walk {
  public:
    using context = call<Comm>;

    short_walk() noexcept {}  // NOLINT: the step is constructed when a call begins

    /// Begins if the schedule is of this kind and the call has one window; otherwise false.
    bool begin(const context& all, lane on) {
        if (all.schedule.rounds() != 1 || all.memory.stage_input || all.encodes() || all.rows.columns() != 1 ||
            all.memory.is_scattered())
            return false;
        ::new (static_cast<void*>(&now_)) step(all.schedule[0]);  // in place: a step is large
        if (!is_simple(all)) return false;
        const int self = all.comm.rank(), size = all.comm.size();
        to_count_ = now_.to.count(self, size);
        from_count_ = now_.from.count(self, size);
        if (!list_parts(all) || !receives_one_block(all)) return false;
        if (from_count_ == 1) now_.how = fold_of_one(now_.how, now_.from.at(0, self), self);
        if (now_.folds_in_order()) arrived_.resize(static_cast<std::size_t>(from_count_));
        lane_ = on;
        posted_ = received_ = 0;
        folded_ = false;
        has_kept_ = now_.local.what != local_work::kind::copy;
        return true;
    }

    bool advance(const context& all) {
        if (!folded_) {
            const bool is_posted = post(all);
            if (!std::exchange(has_kept_, true)) keep_input(all);  // the peers need not wait for it
            if (!is_posted || !receive(all)) return false;
            if (now_.folds_in_order()) fold_arrived(all);
            folded_ = true;
            if (!all.memory.in_place) set_identity(all);
        }
        if (lent_.load(std::memory_order_acquire) != 0) return false;
        if (all.memory.in_place) set_identity(all);  // overwrites where the message lay
        return true;
    }

    /// Whether all that is left is to wait for the end of loans.
    [[nodiscard]] bool has_result() const noexcept { return folded_ && now_.local.what != local_work::kind::identity; }

    [[nodiscard]] waiting blocked_on(const context& all) const {
        waiting where{all.goal.name, 0, 1, -1, lane_};
        if (posted_ < to_count_)
            where.peer = all.waits_to_post(now_.to, posted_);
        else if (received_ < from_count_)
            where.peer = now_.from.at(received_, all.comm.rank());
        return where;
    }
    /// Calls visit(peer) for each peer that may still read what has been lent, if this is what the walk waits for.
    template <class Visit>
    void for_each_borrower(const context& all, Visit visit) const {
        if (!folded_) return;
        for (int i = 0; i < to_count_; ++i) visit(now_.to.at(i, all.comm.rank()));
    }
    void drop() noexcept { arrived_.clear(); }

  private:
    struct block {
        place at;
        std::size_t rows;
    };
    /// The first block of a set.
    [[nodiscard]] static block find(const operand& memory, const partition& blocks, const block_set& set) noexcept {
        if (blocks.blocks() == 1) return {memory.first, blocks.total()};
        const partition::bounds rows = blocks.bounds_of(set[0]);
        return {memory.first + (rows.begin - memory.first_row), rows.end - rows.begin};
    }
    [[nodiscard]] static block input(const context& all, const block_set& set) noexcept {
        return find(all.memory.input, *all.memory.blocks, set);
    }
    [[nodiscard]] static block result(const context& all, const block_set& set) noexcept {
        return find(all.memory.result, *all.memory.result_blocks, set);
    }

    /// Whether it moves blocks from the input to the result, at most one of them locally, and does nothing else.
    [[nodiscard]] bool is_simple(const context& all) const {
        using kind = local_work::kind;
        const bool reads_mine = now_.how != fold::store;
        if (now_.has_more || (reads_mine && now_.mine != slot::input) || now_.into != slot::result) return false;
        const local_work& local = now_.local;
        if (local.what == kind::copy_to_send)  // omitted if posting a message copies it anyway
            return local.left == slot::input && sends_one_block() &&
                   !all.lends(input(all, now_.send).rows * all.rows.row_bytes);
        const bool works = local.what != kind::none;
        if (works && (local.what == kind::fold || local.left != slot::input || local.into != slot::result ||
                      local.blocks.size() != 1 || !local.targets.empty()))
            return false;
        // What is first copied to the result and then sent from there can be sent from the input.
        return now_.source == slot::input || (now_.source == slot::result && local.what == kind::copy &&
                                              sends_one_block() && now_.send[0] == local.blocks[0]);
    }
    [[nodiscard]] bool sends_one_block() const noexcept {
        return now_.sent == addressed::alike && now_.send.size() == 1;
    }
    /// Lists what is sent to all peers alike, or to each of them.
    [[nodiscard]] bool list_parts(const context& all) {
        if (to_count_ == 0) return true;
        const bool alike = now_.sent == addressed::alike;
        parts_.resize(alike ? 1 : static_cast<std::size_t>(to_count_));
        if (alike) return list_part(all, now_.send, parts_[0]);
        for (int i = 0; i < to_count_; ++i)
            if (!list_part(all, all.schedule.sent_to(0, now_.to.at(i, all.comm.rank())),
                           parts_[static_cast<std::size_t>(i)]))
                return false;
        return true;
    }
    [[nodiscard]] static bool list_part(const context& all, const block_set& sent, part& to) {
        to = {};
        if (sent.size() == 1) {
            const block from = input(all, sent);
            if (from.rows > 0) to = {all.rows.address(from.at, 0), from.rows * all.rows.row_bytes};
        }
        return sent.size() <= 1;
    }
    [[nodiscard]] bool receives_one_block(const context& all) {
        if (now_.received == addressed::alike) {
            target_ = now_.receive.empty() ? block{} : result(all, now_.receive);
            return now_.receive.size() <= 1;
        }
        if (now_.how != fold::store) return false;
        for (int i = 0; i < from_count_; ++i)
            if (all.schedule.received_from(0, now_.from.at(i, all.comm.rank())).size() != 1) return false;
        return true;
    }

    void keep_input(const context& all) const {
        const block from = input(all, now_.local.blocks);
        all.rows.copy(from.at, result(all, now_.local.blocks).at, from.rows);
    }
    void set_identity(const context& all) const {
        if (now_.local.what != local_work::kind::identity || all.rows.functions->set_identity == nullptr) return;
        if (const block to = result(all, now_.local.blocks); to.rows > 0)
            all.rows.functions->set_identity(all.rows, to.at, to.rows);
    }

    bool post(const context& all) {
        if (all.memory.posts_notices) return posted_ == to_count_ || post_notice(all);
        for (; posted_ < to_count_; ++posted_) {
            const std::size_t index = now_.sent == addressed::alike ? 0 : static_cast<std::size_t>(posted_);
            const part& what = parts_[index];
            const outgoing message{{&what, 1}, what.bytes, all.rows.alignment, all.rows.packable(),
                                   all.hash,   &lent_,     all.unordered,      all.memory.copies};
            if (!all.comm.try_post(now_.to.at(posted_, all.comm.rank()), lane_, message)) return false;
        }
        return true;
    }

    bool post_notice(const context& all) {
        const auto alignment = all.rows.alignment;
        const std::span<const part> parts = parts_.span();
        ends_.resize(parts.size());
        for (std::size_t i = 0; i < parts.size(); ++i) ends_[i] = i + 1;
        const outgoing message{parts,         detail::packed_bytes(parts, alignment),
                               alignment,     all.rows.packable(),
                               all.hash,      &lent_,
                               all.unordered, all.memory.copies};
        if (!all.post_to_all(now_.to, lane_, message, ends_.span())) return false;
        posted_ = to_count_;
        return true;
    }

    /// Where the message of a peer is stored.
    [[nodiscard]] block target_of(const context& all, int peer) const {
        return now_.received == addressed::alike ? target_ : result(all, all.schedule.received_from(0, peer));
    }
    struct sink {
        short_walk& self;
        const context& all;
        int peer;

        void operator()(typename Comm::arrival_type&& message) const {
            all.check(message.signature(), peer, self.lane_);
            const block target = self.target_of(all, peer);
            all.check_length(message.bytes(), target.rows * all.rows.row_bytes, peer);
            if (self.now_.folds_in_order())
                self.arrived_[static_cast<std::size_t>(self.received_)] = std::move(message);
            else if (target.rows > 0)
                self.combine(all, message, target);
        }
        [[nodiscard]] std::byte* destination(std::uint32_t signature, std::size_t bytes) const {
            if (self.now_.how != fold::store || signature != all.hash || bytes == 0 || !all.rows.packable())
                return nullptr;
            const block target = self.target_of(all, peer);
            return bytes == target.rows * all.rows.row_bytes ? all.rows.address(target.at, 0) : nullptr;
        }
        [[nodiscard]] std::size_t expected_bytes() const { return self.target_of(all, peer).rows * all.rows.row_bytes; }
    };
    void combine(const context& all, const typename Comm::arrival_type& message, const block& into) const {
        std::byte* column = nullptr;
        std::list<scattered> several;
        const place from = place_of(all, message, &column, several);
        if (now_.how == fold::store) return all.rows.copy(from, into.at, into.rows);
        const place mine = input(all, now_.receive).at;
        all.rows.fold(now_.how == fold::left ? from : mine, now_.how == fold::left ? mine : from, into.at, into.rows);
    }
    /// Where the block of a message lies: in a single column, or in several pieces at the peer, which are appended to
    /// `several`.
    [[nodiscard]] static place place_of(const context& all, const typename Comm::arrival_type& message,
                                        std::byte** column, std::list<scattered>& several) {
        std::byte* const packed = message.packed();
        const std::span<const part> parts = message.parts();
        if (packed == nullptr && parts.size() > 1) {
            scattered& pieces = several.emplace_back();
            for (const part& each : parts) pieces.add(each.data, each.bytes / all.rows.row_bytes);
            return {nullptr, 0, &pieces};
        }
        *column = packed != nullptr ? packed : parts[0].data;
        return {column, 0};
    }

    bool receive(const context& all) {
        for (; received_ < from_count_; ++received_) {
            const int peer = now_.from.at(received_, all.comm.rank());
            if (!all.comm.try_receive(peer, lane_, sink{*this, all, peer})) return false;
        }
        return true;
    }

    /// In rank order, with this rank's own operand if it takes part.
    void fold_arrived(const context& all) {
        const auto count = static_cast<std::size_t>(from_count_);
        const bool with_mine = now_.how == fold::in_rank_order;
        const auto below = static_cast<std::size_t>(now_.from.count_below(all.comm.rank(), all.comm.size()));
        if (target_.rows > 0 && count > 0) {
            small_array<std::byte*, 16> columns;
            small_array<place, 16> sources;
            std::list<scattered> several;
            columns.resize(count);
            sources.resize(count + (with_mine ? 1 : 0));
            for (std::size_t k = 0; k < count; ++k) {
                sources[k + (with_mine && k >= below ? 1 : 0)] =
                    place_of(all, arrived_[k], columns.data() + k, several);
            }
            if (with_mine) sources[below] = input(all, now_.receive).at;
            all.rows.fold(sources.span(), std::span(&target_.at, 1), target_.rows);
        }
        arrived_.clear();
    }

    union {
        step now_;  // NOLINT(readability-identifier-naming): it is the union that has no name
    };
    lane lane_ = 0;
    int to_count_ = 0, posted_ = 0;
    int from_count_ = 0, received_ = 0;
    bool has_kept_ = false;  // the part of the input that belongs to the result
    bool folded_ = false;
    std::atomic<int> lent_{0};
    block target_{};  // for what all peers send alike
    small_array<part, 2> parts_;
    small_array<std::size_t, 1> ends_;  // where the part for each peer ends, in a notice
    small_array<typename Comm::arrival_type, 1> arrived_;
};

}  // namespace allfold::detail
