// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <span>
#include <utility>

#include "allfold/engine/detail/small_array.hpp"
#include "allfold/engine/operands.hpp"
#include "allfold/schedule/step.hpp"

/// @file
/// Runs a schedule that is one step with one block: what short calls consist of, where a walk through rounds, windows
/// and slots would take longer than the messages.

namespace allfold::detail {

template <communicator Comm>
class short_walk {
  public:
    using context = call<Comm>;

    /// Begins, if the schedule is of this kind, and the call has one window; false otherwise.
    bool begin(const context& all, lane on) {
        if (all.schedule.rounds() != 1 || all.schedule.blocks() > 1 || all.memory.stage_input || all.encodes() ||
            all.rows.columns() != 1)
            return false;
        const step s = all.schedule[0];
        const bool keeps = s.local.what == local_work::kind::copy && s.local.left == slot::input &&
                           s.local.into == slot::result && s.local.targets.empty();
        // A copy made to be sent is left out where posting a message copies it anyway.
        const bool sends_original =
            s.local.what == local_work::kind::copy_to_send && s.local.left == slot::input &&
            !all.comm.lends(all.memory.blocks->total() * all.rows.row_bytes, all.rows.packable());
        sets_identity_ = s.local.what == local_work::kind::identity;
        if (s.has_more || (s.source != slot::input && !sends_original) || s.mine != slot::input ||
            s.into != slot::result || s.sent != addressed::alike || s.received != addressed::alike ||
            !(keeps || sends_original || sets_identity_ || s.local.what == local_work::kind::none))
            return false;
        lane_ = on;
        to_ = s.to;
        from_ = s.from;
        to_count_ = to_.count(all.comm.rank(), all.comm.size());
        from_count_ = from_.count(all.comm.rank(), all.comm.size());
        how_ = from_count_ == 1 ? fold_of_one(s.how, from_.at(0, all.comm.rank()), all.comm.rank()) : s.how;
        posted_ = received_ = 0;
        folded_ = false;
        rows_ = all.schedule.blocks() == 0 ? 0 : all.memory.blocks->total();
        if (keeps && rows_ > 0) all.rows.copy(all.memory.input.first, all.memory.result.first, rows_);
        if (folds_in_order()) arrived_.resize(static_cast<std::size_t>(from_count_));
        part_ = {rows_ && to_count_ ? all.rows.address(all.memory.input.first, 0) : nullptr,
                 rows_ * all.rows.row_bytes};
        return true;
    }

    bool advance(const context& all) {
        if (!folded_) {
            if (!post(all) || !receive(all)) return false;
            if (folds_in_order() && rows_ > 0 && from_count_ > 0) fold_arrived(all);
            if (folds_in_order()) arrived_.clear();
            folded_ = true;
            if (!all.memory.in_place) set_identity(all);
        }
        if (lent_.load(std::memory_order_acquire) != 0) return false;
        if (all.memory.in_place) set_identity(all);  // where the message lay
        return true;
    }

    [[nodiscard]] waiting blocked_on(const context& all) const {
        waiting where{all.goal.name, 0, 1, -1, lane_};
        if (posted_ < to_count_)
            where.peer = to_.at(posted_, all.comm.rank());
        else if (received_ < from_count_)
            where.peer = from_.at(received_, all.comm.rank());
        return where;
    }
    /// Calls visit(peer) for those who may still read what has been lent, if that is what it waits for.
    template <class Visit>
    void for_each_borrower(const context& all, Visit visit) const {
        if (!folded_) return;
        for (int i = 0; i < to_count_; ++i) visit(to_.at(i, all.comm.rank()));
    }
    void drop() noexcept { arrived_.clear(); }

  private:
    void set_identity(const context& all) const {
        if (sets_identity_ && rows_ > 0 && all.rows.functions->set_identity != nullptr)
            all.rows.functions->set_identity(all.rows, all.memory.result.first, rows_);
    }

    bool post(const context& all) {
        if (posted_ == to_count_) return true;
        const std::size_t parts = all.schedule.blocks() == 0 ? 0 : 1;
        const outgoing message{{&part_, parts},     part_.bytes, all.rows.functions->alignment,
                               all.rows.packable(), all.hash,    &lent_,
                               all.unordered};
        for (; posted_ < to_count_; ++posted_)
            if (!all.comm.try_post(to_.at(posted_, all.comm.rank()), lane_, message)) return false;
        return true;
    }

    struct sink {
        short_walk& self;
        const context& all;
        int peer;

        void operator()(typename Comm::arrival_type&& message) const {
            all.check(message.signature(), peer, self.lane_);
            all.check_length(message.bytes(), self.part_.bytes, peer);
            if (self.folds_in_order())
                self.arrived_[static_cast<std::size_t>(self.received_)] = std::move(message);
            else if (self.rows_ > 0)
                self.combine(all, bytes_of(message));
        }
        [[nodiscard]] std::byte* destination(std::uint32_t signature, std::size_t bytes) const {
            const bool stores = self.how_ == fold::store && signature == all.hash && bytes == self.part_.bytes;
            return stores && bytes > 0 && all.rows.packable() ? all.rows.address(all.memory.result.first, 0) : nullptr;
        }
    };
    [[nodiscard]] bool folds_in_order() const noexcept {
        return how_ == fold::in_rank_order || how_ == fold::peers_in_rank_order;
    }
    void combine(const context& all, std::byte* column) const {
        const place from{&column, 0}, mine = all.memory.input.first, into = all.memory.result.first;
        if (how_ == fold::store)
            all.rows.copy(from, into, rows_);
        else
            all.rows.fold(how_ == fold::left ? from : mine, how_ == fold::left ? mine : from, into, rows_);
    }
    [[nodiscard]] static std::byte* bytes_of(const typename Comm::arrival_type& message) noexcept {
        std::byte* const packed = message.packed();
        return packed != nullptr ? packed : message.parts()[0].data;
    }

    bool receive(const context& all) {
        for (; received_ < from_count_; ++received_) {
            const int peer = from_.at(received_, all.comm.rank());
            if (!all.comm.try_receive(peer, lane_, sink{*this, all, peer})) return false;
        }
        return true;
    }

    /// In rank order, its own among them if it is to be.
    void fold_arrived(const context& all) {
        const auto count = static_cast<std::size_t>(from_count_);
        const bool with_mine = how_ == fold::in_rank_order;
        const auto below = static_cast<std::size_t>(from_.count_below(all.comm.rank(), all.comm.size()));
        small_array<std::byte*, 16> columns;
        small_array<place, 16> sources;
        columns.resize(count);
        sources.resize(count + (with_mine ? 1 : 0));
        for (std::size_t k = 0; k < count; ++k) {
            columns[k] = bytes_of(arrived_[k]);
            sources[k + (with_mine && k >= below ? 1 : 0)] = {columns.data() + k, 0};
        }
        if (with_mine) sources[below] = all.memory.input.first;
        all.rows.fold(sources.span(), std::span(&all.memory.result.first, 1), rows_);
    }

    lane lane_ = 0;
    peers to_{}, from_{};
    fold how_ = fold::store;
    int to_count_ = 0, posted_ = 0;
    int from_count_ = 0, received_ = 0;
    bool folded_ = false;
    bool sets_identity_ = false;
    std::size_t rows_ = 0;
    part part_{};
    std::atomic<int> lent_{0};
    small_array<typename Comm::arrival_type, 1> arrived_;
};

}  // namespace allfold::detail
