// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include "allfold/analysis/claim.hpp"
#include "allfold/analysis/detail/constexpr_array.hpp"
#include "allfold/analysis/detail/costs.hpp"
#include "allfold/analysis/detail/held_values.hpp"
#include "allfold/analysis/detail/interpreter.hpp"
#include "allfold/analysis/detail/rank_bits.hpp"
#include "allfold/analysis/detail/schedules.hpp"
#include "allfold/analysis/proof.hpp"
#include "allfold/schedule/canonical_tree.hpp"
#include "allfold/schedule/contract.hpp"
#include "allfold/schedule/step.hpp"

namespace allfold::detail {

/// Reader of a run that computes with values which name their ranks and block instead of data, and checks them against
/// the claim.
template <class Value>
class prover : public costs {
  public:
    constexpr prover(int size, const schedules& all, const claim& claimed)
        : costs(size),
          schedules_(all),
          claimed_(claimed),
          promise_(*claimed.promise),
          size_(size),
          blocks_(all.blocks(0)),
          kept_(2 * static_cast<std::size_t>(size)) {
        const int in_scratch = all.scratch(0).count(blocks_);
        slot_of(slot::input).blocks = blocks_;
        open(slot::result, blocks_, true);
        open(slot::scratch_a, in_scratch, claimed.scratch_slots >= 1);
        open(slot::scratch_b, in_scratch, claimed.scratch_slots >= 2);
        results_ = slot_of(slot::result).cells;
        first_kept_ = kept_.data();
        if (promise_.synchronises) init_known_ranks();
    }

    // What happens

    constexpr void enters(const running_rank& self) {
        if (!promise_.folds && self.asks_for_operator())
            fail({.what = fault::cannot_run,
                  .rank = self.rank,
                  .round = self.round,
                  .found = static_cast<int>(not_run::fold_without_operator)});
        if (!self.sending.over() && !self.receiving.over()) check_not_sent(self, 0, 0);
        if (self.now.received == addressed::per_peer && self.receiving.count() > 1) check_once(self);
        if (self.now.has_more) check_parts(self);
        if (self.has_epilogue)
            for (int part = 0; part < self.parts(); ++part) await_operands(self, part);
    }
    constexpr void posts(const running_rank& self) {
        if (promise_.synchronises) known_when_posted_[at(self.rank)] = known_ranks_[at(self.rank)];
    }
    constexpr void receives(const running_rank& sender, const running_rank& receiver, int blocks) {
        costs::receives(sender, receiver, blocks);
        if (promise_.synchronises) known_ranks_[at(receiver.rank)].unite(known_when_posted_[at(sender.rank)]);
    }
    constexpr void copies(const running_rank&, const cell_at_rank& from, const cell_at_rank& into) {
        write(into, read(from));
    }
    constexpr void folds(const running_rank& self, const cell_at_rank& left, const cell_at_rank& right,
                         const cell_at_rank& into) {
        costs::folds(self, left, right, into);
        write(into, join(into, read(left), read(right)));
    }
    constexpr void keeps(const running_rank& self, int part, int peer, int i, const cell_at_rank& from) {
        kept(self, part, peer, i) = read(from);
    }
    constexpr void folds_kept(const running_rank& self, int part, int i, int own, const cell_at_rank& into) {
        costs::folds_kept(self, part, i, own, into);
        const int operands = self.receiving.count() + (own < 0 ? 0 : 1);
        write(into, fold_range({self, part, i, own, operands, into}, 0, operands));
    }
    constexpr void folds_prefix(const running_rank& self, int part, int i, int own, int n, const cell_at_rank& into) {
        costs::folds_prefix(self, part, i, own, n, into);
        const Value last = operand({self, part, i, own, self.receiving.count() + 1, into}, n);
        write(into, n == 0 ? last : join(into, read(self.at(into.where, into.block - 1)), last));
    }
    constexpr void drops(const running_rank&, const cell_at_rank& copy) {
        const slot_of_all_ranks& holder = slots_[static_cast<int>(copy.where)];
        if (!ok || holder.cells == nullptr) return;
        Value gone{};
        if (copy.where == slot::result) gone.item = overwritten;
        holder.cells[holder.index_of(copy)] = gone;
    }
    /// Operators need not have an identity: then the result stays as the caller has left it.
    constexpr void erases(const running_rank&, const cell_at_rank& into) {
        if (!exists(into)) return fail_block(into);
        if (ok && result_at(into.rank, into.block).item != never_written)
            fail_not_run(into, not_run::identity_replaces);
        write(into, Value::of({promised(into.rank, into.block).item, 0, 0}));
        has_identity_ = true;
    }

    /// After the run: checks what every rank holds.
    constexpr void check_end() {
        for (int r = 0; r < size_ && ok; ++r) {
            if (promise_.synchronises) check_knows_all(r);
            for (int b = 0; b < blocks_; ++b)
                if (const content wanted = promised(r, b); wanted.exists()) check_result(r, b, wanted);
        }
        if constexpr (requires(Value v) { v.tree; }) check_agreement();
    }

    [[nodiscard]] constexpr int used_scratch_slots() const {
        return static_cast<int>(slots_[2].used) + static_cast<int>(slots_[3].used);
    }

  private:
    struct slot_of_all_ranks {
        constexpr_array<Value> values{};  ///< rank by rank, block by block
        Value* cells = nullptr;           ///< the data of `values`; null if this slot must not be written
        int blocks = 0;
        bool used = false;

        [[nodiscard]] constexpr std::ptrdiff_t index_of(const cell_at_rank& p) const noexcept {
            return static_cast<std::ptrdiff_t>(p.rank) * blocks + p.block;
        }
    };

    /// What a rank keeps for an ordered fold, peer by peer.
    struct kept_operands {
        constexpr_array<Value> values{};
        Value* first = nullptr;
        int blocks = 0;
    };

    // The items of cells without a value. In a result that was never written lies what the caller has left there; in an
    // overwritten one, perhaps a copy that has been sent.
    static constexpr int never_written = Value{}.item, overwritten = never_written - 1;

    [[nodiscard]] static constexpr std::size_t at(int i) noexcept { return static_cast<std::size_t>(i); }
    [[nodiscard]] constexpr slot_of_all_ranks& slot_of(slot where) noexcept {
        return slots_[static_cast<std::size_t>(where)];
    }
    constexpr void open(slot where, int blocks, bool declared) {
        slot_of_all_ranks& opened = slot_of(where);
        opened.blocks = blocks;
        if (!declared) return;
        opened.values = constexpr_array<Value>(at(size_) * at(blocks));
        opened.cells = opened.values.data();
    }
    constexpr void init_known_ranks() {
        known_ranks_ = constexpr_array<rank_bits>(at(size_), [this](std::size_t) { return rank_bits(size_); });
        known_when_posted_ = constexpr_array<rank_bits>(at(size_));
        for (int r = 0; r < size_; ++r) known_ranks_[at(r)].insert(r);
    }

    // The slots of all ranks

    [[nodiscard]] constexpr content promised(int rank, int block) const {
        return promise_.result(claimed_.at(rank, size_), block);
    }
    /// The block that a scratch block is a copy of.
    [[nodiscard]] constexpr content copied(const cell_at_rank& p) const {
        return content{schedules_.scratch(p.rank).copied(p.block)};
    }
    [[nodiscard]] constexpr bool exists(const cell_at_rank& p) const noexcept {
        return p.block >= 0 && p.block < slots_[static_cast<int>(p.where)].blocks;
    }
    [[nodiscard]] constexpr Value read(const cell_at_rank& p) {
        const slot_of_all_ranks& source = slots_[static_cast<int>(p.where)];
        if (!exists(p)) return fail_block(p), Value{};
        const Value value = p.where == slot::input    ? Value::of(promise_.input(claimed_.at(p.rank, size_), p.block))
                            : source.cells == nullptr ? Value{}
                                                      : source.cells[source.index_of(p)];
        if (value.item < 0)
            fail({.what = fault::empty_slot, .rank = p.rank, .round = p.round, .block = p.block, .where = p.where});
        else if (has_identity_ && value.is_identity())
            fail_not_run(p, not_run::identity_read);
        if (p.where == slot::input && claimed_.in_place) check_input_remains(p, value);
        return value;
    }
    constexpr void write(const cell_at_rank& p, const Value& value) {
        slot_of_all_ranks& target = slots_[static_cast<int>(p.where)];
        if (!ok) return;
        if (!exists(p)) return fail_block(p);
        const content there = p.where == slot::result ? promised(p.rank, p.block) : copied(p);
        if (target.cells == nullptr || !there.exists()) return fail_at(p, fault::misplaced);
        if (!claimed_.equal_blocks && !fits(p.where, there, value)) return fail_length(p, value);
        target.cells[target.index_of(p)] = value;
        target.used = true;
    }
    /// If each rank, or pair of ranks, has a length of its own, a scratch block has no length that suits all.
    [[nodiscard]] constexpr bool fits(slot where, const content& there, const Value& value) const {
        const bool own_lengths = promise_.cut == cut_for::pairs || promise_.cut == cut_for::owner;
        return there.item == value.item && (!own_lengths || (where == slot::result && value == Value::of(there)));
    }

    // Folds

    [[nodiscard]] constexpr Value join(const cell_at_rank& into, const Value& left, const Value& right) {
        if (!ok) return {};
        fault why = Value::why_not(left, right);
        int operands = 0;
        if (why == fault::none && claimed_.keeps >= order::tree) {
            const content all = operands_of(into.rank, left.item);
            operands = all.last - all.first;
            if (!Value::is_node(left, right, all)) why = fault::bracketing;
        }
        if (why != fault::none) fail_fold(why, into, left, right, operands);
        return Value::join(left, right);
    }
    /// At this rank `order::tree` means the canonical tree of these operands: in a scan, those of its prefix.
    [[nodiscard]] constexpr content operands_of(int rank, int item) const {
        const content wanted = promised(rank, item);
        return wanted.exists() ? wanted : content{item, 0, size_};
    }

    constexpr void await_operands(const running_rank& self, int part) {
        if (!self.part(part).folds_in_order()) return;
        kept_operands& of_part = kept_[2 * at(self.rank) + at(part)];
        of_part.blocks = self.part(part).receive.size();
        of_part.values = constexpr_array<Value>(at(self.receiving.count()) * at(of_part.blocks));
        of_part.first = of_part.values.data();
    }
    [[nodiscard]] constexpr Value& kept(const running_rank& self, int part, int peer, int i) {
        const kept_operands& of_part = first_kept_[2 * self.rank + part];
        return of_part.first[static_cast<std::ptrdiff_t>(peer) * of_part.blocks + i];
    }

    struct ordered_fold {
        const running_rank& self;
        int part;
        int i;
        int own;
        int operands;
        const cell_at_rank& into;
    };
    /// The node [low, high) of the canonical tree of the operands.
    [[nodiscard]] constexpr Value fold_range(const ordered_fold& all, int low, int high) {
        if (high - low == 1) return operand(all, low);
        const int cut = canonical_cut(all.operands, low, high);
        const Value left = fold_range(all, low, cut);
        return join(all.into, left, fold_range(all, cut, high));
    }
    [[nodiscard]] constexpr Value operand(const ordered_fold& all, int n) {
        const step& now = all.self.part(all.part);
        if (n == all.own) return read(all.self.at(now.mine, now.receive[all.i]));
        return kept(all.self, all.part, all.own >= 0 && n > all.own ? n - 1 : n, all.i);
    }

    // Checks of a step

    constexpr void check_parts(const running_rank& self) {
        check_not_sent(self, 0, 1);
        check_not_sent(self, 1, 0);
        check_not_sent(self, 1, 1);
        check_once(self);
    }

    /// A block must not be received into the slot that it is sent from; nor into the result, if that may share the
    /// input's memory.
    constexpr void check_not_sent(const running_rank& self, int received, int sent) {
        const slot source = self.part(sent).source, into = self.part(received).into;
        const bool maybe_same = claimed_.in_place && source == slot::input && into == slot::result;
        if (source != into && !maybe_same) return;
        for (int i = 0; i < self.receiving.count() && ok; ++i) {
            const block_set blocks = written_for(self, received, self.now.from.at(i, self.rank));
            for (int j = 0; j < blocks.size(); ++j)
                if (self.sends_block(sent, blocks[j])) fail_overwritten(self, into, blocks[j], maybe_same);
            if (self.part(received).received == addressed::alike) return;
        }
    }

    /// The blocks that a part of a peer's message is written to.
    [[nodiscard]] constexpr block_set written_for(const running_rank& self, int part, int peer) const {
        return self.part(part).folds_prefixes() ? block_set::all(self.receiving.count() + 1)
                                                : self.received_from(part, peer);
    }

    /// Several messages, or parts of one, must not be written to the same block: the result would depend on which is
    /// last.
    constexpr void check_once(const running_rank& self) {
        rank_bits seen(4 * max_blocks());
        for (int part = 0; part < self.parts(); ++part) {
            const step& now = self.part(part);
            const int messages = now.received == addressed::alike ? 1 : self.receiving.count();
            for (int i = 0; i < messages && ok; ++i)
                insert_once(self, now.into, written_for(self, part, self.now.from.at(i, self.rank)), seen);
        }
    }
    [[nodiscard]] constexpr int max_blocks() {
        const int in_scratch = slot_of(slot::scratch_a).blocks;
        return blocks_ < in_scratch ? in_scratch : blocks_;
    }
    constexpr void insert_once(const running_rank& self, slot into, const block_set& received, rank_bits& seen) {
        for (int i = 0; i < received.size() && ok; ++i) {
            const cell_at_rank p = self.at(into, received[i]);
            if (!exists(p)) return fail_block(p);
            const int number = static_cast<int>(into) * max_blocks() + p.block;
            if (seen.contains(number)) fail_at(p, fault::received_twice);
            seen.insert(number);
        }
    }

    /// In place, an input that has been overwritten can no longer be read.
    constexpr void check_input_remains(const cell_at_rank& p, const Value& value) {
        const slot_of_all_ranks& results = slots_[static_cast<int>(slot::result)];
        const Value& in_its_place = results.cells[results.index_of(p)];
        if (in_its_place.item != never_written && !(in_its_place == value))
            fail({.what = fault::not_in_place,
                  .cause = fault::empty_slot,
                  .rank = p.rank,
                  .round = p.round,
                  .block = p.block});
    }

    // Checks after the run

    constexpr void check_knows_all(int rank) {
        const int count = known_ranks_[at(rank)].count();
        if (count != size_)
            fail({.what = fault::wrong_result, .rank = rank, .left = {0, size_, count}, .right = {0, size_, size_}});
    }
    constexpr void check_result(int rank, int block, const content& wanted) {
        // Where operands are folded only once, that one fold also lifts and lowers them.
        if (schedules_.fold_once() && promise_.folds && wanted.last - wanted.first == 1)
            fail({.what = fault::folds_again, .rank = rank, .block = block});
        const Value left = result_at(rank, block), right = Value::of(wanted);
        if (!(left == right))
            fail({.what = fault::wrong_result,
                  .rank = rank,
                  .block = block,
                  .left = left.held(),
                  .right = right.held()});
    }
    /// Ranks that are promised the same have the same bits: it was folded once, or in the same way everywhere.
    constexpr void check_agreement() {
        for (int b = 0; b < blocks_ && ok; ++b) {
            int first = 0;
            while (first < size_ && !promised(first, b).exists()) ++first;
            if (first < size_) check_agreement(first, b, promised(first, b));
        }
    }
    constexpr void check_agreement(int first, int block, const content& wanted) {
        const auto tree = result_at(first, block).tree;
        for (int r = first + 1; r < size_ && ok; ++r)
            if (promised(r, block) == wanted && result_at(r, block).tree != tree)
                fail({.what = fault::disagreement, .rank = r, .peer = first, .block = block});
    }
    [[nodiscard]] constexpr const Value& result_at(int rank, int block) {
        return results_[static_cast<std::ptrdiff_t>(rank) * blocks_ + block];
    }

    // Faults

    constexpr void fail_block(const cell_at_rank& p) {
        fail({.what = fault::no_such_block,
              .rank = p.rank,
              .round = p.round,
              .block = p.block,
              .wanted = slot_of(p.where).blocks});
    }
    constexpr void fail_at(const cell_at_rank& p, fault what) {
        fail({.what = what,
              .rank = p.rank,
              .round = p.round,
              .block = p.block,
              .where = p.where,
              .wanted = claimed_.scratch_slots});
    }
    constexpr void fail_not_run(const cell_at_rank& p, not_run why) {
        fail({.what = fault::cannot_run, .rank = p.rank, .round = p.round, .found = static_cast<int>(why)});
    }
    constexpr void fail_length(const cell_at_rank& p, const Value& value) {
        fail({.what = fault::other_length,
              .rank = p.rank,
              .round = p.round,
              .block = p.block,
              .where = p.where,
              .left = value.held()});
    }
    constexpr void fail_fold(fault why, const cell_at_rank& into, const Value& left, const Value& right, int operands) {
        fail({.what = why,
              .rank = into.rank,
              .round = into.round,
              .block = into.block,
              .wanted = operands,
              .left = left.held(),
              .right = right.held()});
    }
    constexpr void fail_overwritten(const running_rank& self, slot into, int block, bool in_place) {
        fail({.what = in_place ? fault::not_in_place : fault::overwrites_sent,
              .cause = fault::overwrites_sent,
              .rank = self.rank,
              .round = self.round,
              .block = block,
              .where = into});
    }

    const schedules& schedules_;
    claim claimed_;
    const contract& promise_;
    int size_;
    int blocks_;
    slot_of_all_ranks slots_[4]{};
    const Value* results_ = nullptr;
    constexpr_array<kept_operands> kept_;  ///< rank by rank and part by part
    kept_operands* first_kept_ = nullptr;
    bool has_identity_ = false;                       ///< some block
    constexpr_array<rank_bits> known_ranks_{};        ///< which ranks each rank has heard of
    constexpr_array<rank_bits> known_when_posted_{};  ///< which of them it knew of when it posted its messages
};

}  // namespace allfold::detail
