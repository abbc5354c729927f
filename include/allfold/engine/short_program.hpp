// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "allfold/data/detail/heap_array.hpp"
#include "allfold/engine/operands.hpp"
#include "allfold/schedule/canonical_tree.hpp"
#include "allfold/schedule/step.hpp"
#include "allfold/transport/detail/copy.hpp"

/// @file
/// What one rank does in a call with a few short messages, as plain numbers: derived from the schedule once, and run
/// each time the same call is repeated, since interpreting the call would take longer than its messages.

namespace allfold::detail {

/// One rank's steps of one call, which has at most two rounds and 16 ranks. Each message is one block, which is copied
/// when it is posted; rows are counted from the first one of an argument.
class short_program {
  public:
    static constexpr int max_ranks = 16;
    static constexpr int max_rounds = 2;

    struct rows_of {
        std::size_t first = 0, count = 0;
    };
    struct message {
        int peer = 0;
        rows_of rows;                ///< where it is read from, or stored
        std::size_t first_byte = 0;  ///< in the first column
        std::size_t bytes = 0;       ///< of all columns, each aligned
    };
    static constexpr int max_levels = 4;
    struct round {
        std::span<const message> to, from;
        bool sends_result = false;  ///< rather than the input
        bool is_to_all = false;     ///< all others are sent the same message,
        bool is_to_each = false;  ///< or one each; then all rounds in which this rank sends anything send to all others
        bool is_exchange = false;  ///< and all others do so too
        fold how = fold::store;
        bool folds_result = false;       ///< its own operand is the result so far, rather than the input
        std::size_t own_first = 0;       ///< where that operand begins
        std::size_t own_first_byte = 0;  ///< the same in the first column
        std::size_t lower = 0;           ///< how many of the ranks that it receives from are below it
        local_work::kind local{};        ///< nothing, a copy of the input, or the identity as the result
        rows_of input, result;           ///< of the local work
        bool is_local_first = false;     ///< since its outcome is sent
        /// The canonical tree of what is folded together, from the leaves up. Values are numbered: first the operands
        /// in rank order, then `max_levels` buffers.
        std::array<fold_node, max_ranks - 1> tree{};
        int operands = 0;  ///< how many of those there are

        /// Whether received blocks are combined only once the messages of all peers have arrived.
        [[nodiscard]] bool folds_together() const noexcept {
            return how == fold::in_rank_order || how == fold::peers_in_rank_order;
        }
    };

    [[nodiscard]] int rounds() const noexcept { return rounds_; }
    /// Whether it has at most one message each way, and sends the input as it lies.
    [[nodiscard]] bool is_pair() const noexcept {
        const round& only = round_[0];
        return rounds_ == 1 && only.to.size() <= 1 && only.from.size() <= 1 && !only.sends_result &&
               !only.is_local_first && !only.folds_together();
    }
    [[nodiscard]] const round& operator[](int r) const noexcept { return round_[static_cast<std::size_t>(r)]; }

    short_program() = default;
    short_program(const short_program&) = delete;
    short_program& operator=(const short_program&) = delete;

    /// Whether the call is of this kind: if so, this becomes its program. `Call` is `call`, or something like it.
    template <class Call>
    [[nodiscard]] bool make(const Call& all) {
        used_ = 0;
        rounds_ = all.schedule.rounds();
        const operands& m = all.memory;
        if (all.comm.size() > max_ranks || rounds_ < 1 || rounds_ > max_rounds || m.stage_input || m.fused ||
            m.posts_notices || m.blocks->largest() > m.window_rows || !all.rows.packable())
            return false;
        messages_ = heap_array<message>(count_messages(all));
        for (int r = 0; r < rounds_; ++r)
            if (!understand(all, r, round_[static_cast<std::size_t>(r)])) return false;
        find_common(all.comm.size());
        return true;
    }

  private:
    template <class Call>
    [[nodiscard]] std::size_t count_messages(const Call& all) const {
        int count = 0;
        for (int r = 0; r < rounds_; ++r) {
            const step now = all.schedule[r];
            count += now.to.count(all.comm.rank(), all.comm.size()) + now.from.count(all.comm.rank(), all.comm.size());
        }
        return static_cast<std::size_t>(count);
    }
    template <class Call>
    [[nodiscard]] bool understand(const Call& all, int number, round& into) {
        const step now = all.schedule[number];
        const int self = all.comm.rank(), size = all.comm.size();
        into = {};
        if (now.has_more || is_scratch(now.into) || now.into != slot::result || is_scratch(now.mine)) return false;
        const slot source = sends_what_it_copies(now) ? now.local.left : now.source;
        const int to = now.to.count(self, size), from = now.from.count(self, size);
        if (to > 0 && is_scratch(source)) return false;
        into.sends_result = source == slot::result;
        into.how = from == 1 ? fold_of_one(now.how, now.from.at(0, self), self) : now.how;
        into.lower = static_cast<std::size_t>(now.from.count_below(self, size));
        message* const first = messages_.data() + used_;
        for (int i = 0; i < to; ++i) {
            const int peer = now.to.at(i, self);
            if (!add(all, source, peer, sent_to(all.schedule, now, number, peer))) return false;
        }
        for (int i = 0; i < from; ++i) {
            const int peer = now.from.at(i, self);
            if (!add(all, slot::result, peer, received_from(all.schedule, now, number, peer))) return false;
        }
        into.to = {first, static_cast<std::size_t>(to)};
        into.from = {first + to, static_cast<std::size_t>(from)};
        return understand_fold(all, now, into) && understand_local(all, now, source, into);
    }
    /// Whether what is sent can be read from the source of the local copy, so that the peers need not wait for that
    /// copy.
    [[nodiscard]] static bool sends_what_it_copies(const step& now) {
        using kind = local_work::kind;
        if (now.local.what == kind::copy_to_send) return true;
        return now.local.what == kind::copy && now.source == now.local.into && now.sent == addressed::alike &&
               now.send.size() == 1 && now.local.blocks.size() == 1 && now.local.targets.empty() &&
               now.send[0] == now.local.blocks[0];
    }
    template <class Call>
    [[nodiscard]] bool understand_fold(const Call& all, const step& now, round& into) const {
        if (into.from.empty()) into.how = fold::store;
        if (into.how == fold::store) return true;
        if (now.received != addressed::alike) return false;
        if (now.receive.size() != 1) return now.receive.empty();
        into.folds_result = now.mine == slot::result;
        if (into.folds_together()) {
            into.operands = static_cast<int>(into.from.size()) + (into.how == fold::in_rank_order ? 1 : 0);
            fold_node* next = into.tree.data();
            list_junctions(into.operands, 0, into.operands, 0, next);
        }
        into.own_first = rows_in(all, now.mine, now.receive).first;
        into.own_first_byte = into.own_first * all.rows.bytes[0];
        return into.how == fold::left || into.how == fold::right || now.folds_in_order();
    }
    static int list_junctions(int size, int low, int high, int depth, fold_node*& next) noexcept {
        if (high - low == 1) return low;
        const int cut = canonical_cut(size, low, high);
        const int left = list_junctions(size, low, cut, depth, next);
        const int right = list_junctions(size, cut, high, depth + 1, next);
        const int into = size + depth;
        *next++ = {static_cast<std::uint8_t>(left), static_cast<std::uint8_t>(right), static_cast<std::uint8_t>(into)};
        return into;
    }
    template <class Call>
    [[nodiscard]] static bool understand_local(const Call& all, const step& now, slot source, round& into) {
        using kind = local_work::kind;
        const local_work& local = now.local;
        if (local.what == kind::none || local.what == kind::copy_to_send) return true;
        if (local.what == kind::fold || local.blocks.size() != 1 || !local.targets.empty() ||
            local.into != slot::result || (local.what == kind::copy && local.left != slot::input))
            return false;
        into.local = local.what;
        into.input = rows_in(all, slot::input, local.blocks);
        into.result = rows_in(all, slot::result, local.blocks);
        into.is_local_first = source == slot::result;
        return true;
    }

    /// Finds what is sent to all others.
    void find_common(int size) noexcept {
        const std::span<round> rounds(round_.data(), static_cast<std::size_t>(rounds_));
        const auto is_common = [&](const round& each) {
            return each.to.empty() || each.to.size() == static_cast<std::size_t>(size) - 1;
        };
        if (size == 2 || !std::ranges::all_of(rounds, is_common)) return;
        for (round& each : rounds) {
            const auto is_first = [&](const message& one) { return one.rows.first == each.to[0].rows.first; };
            each.is_to_all = are_of_all(each.to, size) && std::ranges::all_of(each.to, is_first);
            each.is_to_each = !each.is_to_all && !each.to.empty();
            each.is_exchange = each.is_to_all && are_of_all(each.from, size);
        }
    }
    /// Whether there is one message for each other rank, all of the same length.
    [[nodiscard]] static bool are_of_all(std::span<const message> some, int size) noexcept {
        return some.size() == static_cast<std::size_t>(size) - 1 &&
               std::ranges::all_of(some, [&](const message& one) { return one.bytes == some[0].bytes; });
    }
    template <class Call>
    [[nodiscard]] static rows_of rows_in(const Call& all, slot where, const block_set& set) noexcept {
        if (set.empty()) return {};
        const bool is_result = where == slot::result;
        const operand& memory = is_result ? all.memory.result : all.memory.input;
        const partition& blocks = is_result ? *all.memory.result_blocks : *all.memory.blocks;
        const partition::bounds rows = blocks.bounds_of(set[0]);
        return {memory.first.row + rows.begin - memory.first_row, rows.end - rows.begin};
    }
    template <class Call>
    [[nodiscard]] bool add(const Call& all, slot where, int peer, const block_set& set) noexcept {
        if (set.size() > 1) return false;
        message& next = messages_[used_++];
        const rows_of rows = rows_in(all, where, set);
        next = {peer, rows, rows.first * all.rows.bytes[0], 0};
        for (std::size_t c = 0; c < all.rows.columns() && rows.count > 0; ++c)
            next.bytes = align_up(next.bytes, all.rows.alignment) + rows.count * all.rows.bytes[c];
        return !all.lends(next.bytes);
    }

    int rounds_ = 0;
    std::array<round, max_rounds> round_{};
    std::size_t used_ = 0;
    heap_array<message> messages_;
};

}  // namespace allfold::detail
