// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <atomic>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "allfold/engine/detail/small_array.hpp"
#include "allfold/engine/operands.hpp"
#include "allfold/engine/prefixes.hpp"
#include "allfold/engine/scratch.hpp"
#include "allfold/schedule/fusion.hpp"

/// @file
/// The steps of a schedule that folds, or deals, and then publishes, as a single pass, for ranks that share memory.

namespace allfold::detail {

/// Every rank lends its input and its result to all others, reads its own block of all inputs, folds it in rank order,
/// and stores it in all results (in a scan, in each result its prefix): each input is read once and each result is
/// written once, with one synchronisation before and one after. This works in place as well, since no other rank
/// touches this block. `schedule/fusion.hpp` says which schedules can run like this, and proves that the outcome is the
/// same.
template <communicator Comm>
class fused_walk {
  public:
    using context = call<Comm>;

    void begin(const context& all, lane on) {
        lane_ = on;
        posted_ = received_ = 0;
        folded_ = false;
        pass_ = *all.memory.fused;
        list_own(all);
        arrived_.resize(static_cast<std::size_t>(all.comm.size() - 1));
        consider_distance(all);
    }

    bool advance(const context& all) {
        if (!folded_) {
            if (!post(all) || !receive(all)) return false;
            measure_distance(all);
            fold(all);
            folded_ = true;
            arrived_.clear();
        }
        if (lent_.load(std::memory_order_acquire) != 0) return false;
        all.comm.progress();  // throws if a rank has failed, and has not written its block
        return true;
    }

    [[nodiscard]] waiting blocked_on(const context& all) const {
        waiting where{all.goal.name, folded_ ? 1 : 0, 2, -1, lane_};
        if (!folded_)
            where.peer = posted_ < all.comm.size() - 1 ? all.waits_to_post(everyone, posted_)
                                                       : everyone.at(received_, all.comm.rank());
        return where;
    }

    void drop() noexcept { arrived_.clear(); }

    /// Whether it lowers folds to values. Those of a scan stand for different numbers of operands.
    [[nodiscard]] bool lowers() const noexcept { return pass_.each == share::fold; }

  private:
    static constexpr peers everyone = peers::everyone();

    void list_own(const context& all) {
        const std::size_t columns = all.rows.columns();
        own_.resize(2 * columns);
        parts_.resize(2 * columns);
        for (std::size_t c = 0; c < columns; ++c) {
            parts_[c] = own_[c] = description_of(all.memory.input.first, c);
            parts_[columns + c] = own_[columns + c] = description_of(all.memory.result.first, c);
        }
    }
    /// If cores are far from each other, what others read is not left in the caches of this core, but copied past them.
    /// all_reduce of two ranks on AMD Zen 4, with streaming stores to the other rank's result: 0.33x the time at 1 MiB,
    /// 0.36x at 4 MiB, 0.73x at 16 MiB; without these copies, 0.6x at 4 MiB and 0.75x at 16 MiB. Four ranks on two
    /// cores: 0.36x at 256 KiB, 0.41x at 1 MiB, 0.81x at 4 MiB.
    void consider_distance(const context& all) {
        const partition& blocks = *all.memory.blocks;
        const std::size_t bytes = blocks.total() * all.rows.row_bytes;
        are_far_ = all.rows.packable() && bytes >= min_staged_bytes && all.comm.others_were_far();
        const bool is_read =
            pass_.each != share::copy || (pass_.source == all.comm.rank() && all.schedule.rounds() == 2);
        if (!are_far_ || !is_read || all.memory.input.first.pieces != nullptr || bytes > max_staged_bytes) return;
        if (staged_.empty()) staged_.allocate(all.rows, blocks.total(), all.memory.input.first);
        const partition::bounds own = blocks.bounds_of(pass_.block);
        stage(all, 0, own.begin);
        stage(all, own.end, blocks.total());
        finish_streams();
        for (std::size_t c = 0; c < all.rows.columns(); ++c) parts_[c] = description_of(staged_.first(), c);
    }
    /// Called when all ranks have arrived: what they wrote last is still in their caches.
    void measure_distance(const context& all) {
        static_cast<void>(all.comm.others_are_far(all.memory.blocks->total() * all.rows.row_bytes));
    }
    void stage(const context& all, std::size_t first, std::size_t last) {
        all.rows.copy(all.memory.input.first + first, staged_.first() + first, last - first, store::streaming);
    }

    bool post(const context& all) {
        const outgoing message{parts_.span(), 0, all.rows.alignment, false, all.hash, &lent_, all.unordered};
        if (posted_ == 0 && all.memory.posts_notices) {
            if (!all.post_to_all(everyone, lane_, message)) return false;
            posted_ = all.comm.size() - 1;
        }
        if (posted_ == 0 && !all.unordered && posts_once(all, message)) posted_ = all.comm.size() - 1;
        for (; posted_ < all.comm.size() - 1; ++posted_)
            if (!all.comm.try_post(everyone.at(posted_, all.comm.rank()), lane_, message)) return false;
        return true;
    }

    /// Posts a single message for all others, if they are few; each of them would otherwise look for it in a different
    /// place.
    [[nodiscard]] bool posts_once(const context& all, const outgoing& message) {
        if constexpr (Comm::has_short_path)
            return all.comm.post_to_all(lane_, message);
        else
            return false;
    }

    bool receive(const context& all) {
        for (; received_ < all.comm.size() - 1; ++received_) {
            const int peer = everyone.at(received_, all.comm.rank());
            const bool came = all.comm.try_receive(peer, lane_, [&](typename Comm::arrival_type&& message) {
                all.check(message.signature(), peer, lane_);
                all.check_length(message.parts().size(), parts_.size(), peer);
                arrived_[static_cast<std::size_t>(received_)] = std::move(message);
            });
            if (!came) return false;
        }
        return true;
    }

    void fold(const context& all) {
        if (pass_.each == share::copy) return hand_out(all);
        const int self = all.comm.rank(), size = all.comm.size();
        const std::size_t row = all.memory.blocks->offset(pass_.block), rows = all.memory.blocks->extent(pass_.block);
        const std::size_t columns = all.rows.columns();
        const std::size_t first_row = all.memory.result.first_row;  // a rank that receives blocks has the whole result
        small_array<std::byte*, 16> where;  // rank by rank, the columns of its input and of its result
        small_array<place, 8> sources, targets;
        where.resize(static_cast<std::size_t>(size) * 2 * columns);
        sources.resize(static_cast<std::size_t>(size));
        targets.resize(static_cast<std::size_t>(size));
        std::size_t count = 0, own = targets.size();  // the index of this rank's own among the targets
        for (int r = 0; r < size; ++r) {
            const std::span<const part> lent = r == self ? std::span<const part>(own_.span()) : lent_by(r, self);
            std::byte** const lists = where.data() + static_cast<std::size_t>(r) * 2 * columns;
            for (std::size_t c = 0; c < 2 * columns; ++c) lists[c] = lent[c].data;
            sources[static_cast<std::size_t>(r)] = {lists, row, pieces_of(lent[0])};
            const bool gets_it = r == self ? pass_.keeps_own : pass_.targets.contains(r, self);
            if (gets_it && r == self) own = count;
            if (gets_it)
                targets[count++] = {lists + columns, r == self ? row - first_row : row, pieces_of(lent[columns])};
        }
        const store_modes how = store_modes_for(all, count, own);
        if (pass_.each == share::fold)
            return all.rows.fold(sources.span(), targets.first(count), rows, how, all.memory.contributions);
        if (pass_.operands_of(0, size) > 0) return fold_prefixes(all.rows, sources.span(), targets.span(), rows, how);
        fold_prefixes(all.rows, sources.first(count - 1), targets.span().subspan(1), rows, how.without_first());
        fill_with_identity(all.rows, targets[0], rows, how[0]);
    }

    /// Stores this rank's own block of one input where it belongs. A rank that receives it has the whole result; only
    /// an input may be a part.
    void hand_out(const context& all) const {
        const int self = all.comm.rank(), size = all.comm.size();
        const partition& blocks = *all.memory.blocks;
        const std::size_t row = blocks.offset(pass_.block), rows = blocks.extent(pass_.block);
        const std::size_t columns = all.rows.columns();
        small_array<std::byte*, 16> where;
        where.resize(columns);
        small_array<std::byte*, 16> from;
        from.resize(columns);
        const place source = pass_.source == self ? all.memory.input.first + (row - all.memory.input.first_row)
                                                  : lent_place(pass_.source, self, 0, row, from.data());
        const bool streams = blocks.total() * all.rows.row_bytes * 2 > streaming_prefix_bytes;
        const store how = streams || are_far_ ? store::streaming : store::shared;  // at other ranks
        for (int r = 0; r < size; ++r) {
            if (r == self && pass_.keeps_own)
                all.rows.copy(source, all.memory.result.first + (row - all.memory.result.first_row), rows,
                              streams ? store::streaming : store::plain);
            else if (r != self && pass_.targets.contains(r, self))
                all.rows.copy(source, lent_place(r, self, columns, row, where.data()), rows, how);
        }
        if (how == store::streaming) finish_streams();
    }
    /// Where a row lies at another rank, in the columns that it has lent from number `first` on.
    [[nodiscard]] place lent_place(int rank, int self, std::size_t first, std::size_t row, std::byte** columns) const {
        const std::span<const part> lent = lent_by(rank, self).subspan(first, arrived_[0].parts().size() / 2);
        for (std::size_t c = 0; c < lent.size(); ++c) columns[c] = lent[c].data;
        return {columns, row, pieces_of(lent[0])};
    }

    /// What others are told about a column: where its first row lies, or (marked by a nonzero length) how its pieces
    /// lie.
    [[nodiscard]] static part description_of(const place& first, std::size_t column) noexcept {
        if (first.pieces == nullptr) return {first.columns[column], 0};
        return {reinterpret_cast<std::byte*>(const_cast<scattered*>(first.pieces)), 1};
    }
    [[nodiscard]] static const scattered* pieces_of(const part& lent) noexcept {
        return lent.bytes == 0 ? nullptr : reinterpret_cast<const scattered*>(lent.data);
    }
    [[nodiscard]] std::span<const part> lent_by(int rank, int self) const {
        return arrived_[static_cast<std::size_t>(rank < self ? rank : rank - 1)].parts();
    }

    /// Past the cache if inputs and results exceed it, or if the target is far.
    [[nodiscard]] store_modes store_modes_for(const context& all, std::size_t targets, std::size_t own) const noexcept {
        const std::size_t bytes = all.memory.blocks->total() * all.rows.row_bytes;
        const std::size_t most = pass_.each == share::fold ? streaming_bytes : streaming_prefix_bytes;
        if (bytes * (static_cast<std::size_t>(all.comm.size()) + targets) > most) return store::streaming;
        return {are_far_ ? store::streaming : store::plain, store::plain, own};
    }
    /// The size of all inputs and results. all_reduce on a Xeon (Sapphire Rapids), P = 2, 4 and 8, through the cache
    /// relative to streaming stores: 0.8x the time at 32 MiB, 0.83x to 0.89x at 64 MiB, 0.9x to 1.1x at 128 MiB, 1.12x
    /// to 1.25x at 256 MiB. (With a limit of 24 MiB, 4 MiB at P = 4 and 8 took 1.2 times as long.)
    static constexpr std::size_t streaming_bytes = std::size_t{96} << 20;
    /// If they go through the cache, prefixes are folded directly into their targets, without a copy. P = 2, 4 and 8
    /// with 32 MiB of third-level cache: streaming stores take 1.35x the time at 32 MiB, 1.0x at 48 MiB, 0.9x at 64
    /// MiB. The limit applies to copies too: broadcast of 16 MiB (Xeon, two ranks) takes 1.3x the time with streaming
    /// stores.
    static constexpr std::size_t streaming_prefix_bytes = std::size_t{48} << 20;

    /// The size of the whole input. Beyond this, most of it is in memory anyway: with two ranks, 0.97x the time at 16
    /// MiB, 0.87x at 64 MiB.
    static constexpr std::size_t min_staged_bytes = 2048, max_staged_bytes = std::size_t{8} << 20;

    lane lane_ = 0;
    int posted_ = 0;
    int received_ = 0;
    bool folded_ = false;
    bool are_far_ = false;
    fused_pass pass_{};
    small_array<part, 4> own_, parts_;  // what this rank has, and what it tells others
    std::atomic<int> lent_{0};
    small_array<typename Comm::arrival_type, 1> arrived_;
    scratch staged_;  // what others read in place of its input, if any of them is far
};

/// For ranks that do not share memory.
template <communicator Comm>
    requires(!Comm::shares_memory)
class fused_walk<Comm> {
  public:
    void begin(const call<Comm>&, lane) {}
    bool advance(const call<Comm>&) { return true; }
    [[nodiscard]] waiting blocked_on(const call<Comm>&) const { return {}; }
    void drop() noexcept {}
    [[nodiscard]] bool lowers() const noexcept { return false; }
};

}  // namespace allfold::detail
