// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "allfold/analysis/detail/held_values.hpp"
#include "allfold/analysis/detail/rank_bits.hpp"
#include "allfold/analysis/proof.hpp"
#include "allfold/schedule/contract.hpp"
#include "allfold/schedule/step.hpp"

/// @file
/// Runs all ranks of a schedule at once, without buffers between them, over values that name ranks.

namespace allfold {

/// What a schedule says about itself, and what is therefore to be proved.
struct claim {
    collective goal;
    order keeps;
    int scratch_slots;
    bool in_place;
    int root = 0;
};

}  // namespace allfold

namespace allfold::detail {

/// The schedules of all ranks behind one interface, so that the interpreter is compiled once and not for each of them.
class schedules {
  public:
    [[nodiscard]] virtual constexpr int blocks(int rank) const = 0;
    [[nodiscard]] virtual constexpr int rounds(int rank) const = 0;
    [[nodiscard]] virtual constexpr step at(int rank, int round) const = 0;

  protected:
    constexpr ~schedules() = default;
};

template <class Make>
class schedules_made_by final : public schedules {
  public:
    constexpr explicit schedules_made_by(const Make& make) : make_(make) {}
    [[nodiscard]] constexpr int blocks(int rank) const override { return make_(rank).blocks(); }
    [[nodiscard]] constexpr int rounds(int rank) const override { return make_(rank).rounds(); }
    [[nodiscard]] constexpr step at(int rank, int round) const override { return make_(rank)[round]; }

  private:
    const Make& make_;
};

/// A rank in the course of the run.
template <class Value>
struct running_rank {
    int rank = 0;
    int round = -1;
    int next_ready = -1;  ///< ranks that may leave their step form a list
    step now{};
    meeting sending{};
    meeting receiving{};
    std::vector<Value> arrived{};  ///< operands of an ordered fold, peer by peer
    rank_bits heard{};             ///< of whom a barrier has told it
    rank_bits told{};              ///< of whom it tells others in this step
    long long messages = 0;
    long long blocks_sent = 0;
    long long folds = 0;

    [[nodiscard]] constexpr bool step_over() const noexcept { return sending.over() && receiving.over(); }
    [[nodiscard]] constexpr bool sends_to(int peer) const noexcept { return sending.awaits(now.to, peer, rank); }
    [[nodiscard]] constexpr bool receives_from(int peer) const noexcept {
        return receiving.awaits(now.from, peer, rank);
    }
    [[nodiscard]] constexpr bool folds_in_order() const noexcept {
        return now.how == fold::in_rank_order || now.how == fold::peers_in_rank_order;
    }
    [[nodiscard]] constexpr bool sends_block(int block) const noexcept {
        return now.sent == addressed::per_peer ? now.to.contains(block, rank) : now.send.contains(block);
    }
    [[nodiscard]] constexpr Value& arrived_from(int peer_index, int i) {
        return arrived[static_cast<std::size_t>(peer_index * now.receive.size() + i)];
    }
};

template <class Value>
struct slot_of_all_ranks {
    std::vector<Value> cells{};  ///< rank by rank, block by block
    bool used = false;
};

/// A rank leaves a step when each message of that step has met its counterpart in the step that the peer is in then.
/// Who cannot leave in the end is stuck. The first fault ends the run.
template <class Value>
class interpreter {
  public:
    constexpr interpreter(int size, const schedules& all, const claim& claimed)
        : claimed_(claimed),
          barrier_(claimed.goal == collective::barrier),
          size_(size),
          blocks_(all.blocks(0)),
          rounds_(all.rounds(0)),
          schedules_(all),
          ranks_(static_cast<std::size_t>(size)),
          first_(ranks_.data()) {
        for (slot each : {slot::result, slot::scratch_a, slot::scratch_b})
            if (each == slot::result || may_write(0, each, 0))
                slots_[static_cast<std::size_t>(each)].cells.resize(index_of(size, 0));
    }

    interpreter(const interpreter&) = delete;
    interpreter& operator=(const interpreter&) = delete;

    constexpr proof run() {
        check_shape();
        if (size_ > 1) run_steps();
        if (size_ > 1) check_end();
        count();
        return result_;
    }

  private:
    using state = running_rank<Value>;

    // The course of the run

    constexpr void run_steps() {
        for (int r = 0; r < size_; ++r) {
            at(r).rank = r;
            if (barrier_) at(r).heard = rank_bits(size_);
            if (barrier_) at(r).heard.insert(r);
            make_ready(at(r));
        }
        while (ok_ && ready_ >= 0) {
            state& self = at(ready_);
            ready_ = self.next_ready;
            next_step(self);
        }
    }

    constexpr void next_step(state& self) {
        if (self.round >= 0 && self.folds_in_order()) fold_arrived(self);
        if (++self.round == rounds_) return;
        self.now = schedules_.at(self.rank, self.round);
        check_peers(self, self.now.to);
        check_peers(self, self.now.from);
        if (!ok_) return;
        self.sending.open(self.now.to, self.rank, size_);
        self.receiving.open(self.now.from, self.rank, size_);
        check_fold(self);
        check_not_sent(self);
        if (self.now.local.what != local_work::kind::none) work_alone(self);
        if (barrier_) self.told = self.heard;
        if (self.folds_in_order()) await_operands(self);
        if (self.step_over())
            make_ready(self);
        else
            meet_peers(self);
    }

    constexpr void make_ready(state& self) {
        self.next_ready = ready_;
        ready_ = self.rank;
    }

    constexpr void meet_peers(state& self) {
        for (int i = 0; i < self.sending.count() && ok_; ++i) {
            state& peer = at(self.now.to.at(i, self.rank));
            if (peer.receives_from(self.rank)) transfer(self, peer);
        }
        for (int i = 0; i < self.receiving.count() && ok_; ++i) {
            state& peer = at(self.now.from.at(i, self.rank));
            if (peer.sends_to(self.rank)) transfer(peer, self);
        }
    }

    // One message

    constexpr void transfer(state& sender, state& receiver) {
        const block_set sent = sender.now.sent_to(receiver.rank), expected = receiver.now.received_from(sender.rank);
        const int count = sent.size();
        if (count != expected.size()) return fail_message(sender, receiver, -1, count, expected.size());
        for (int i = 0; i < count && ok_; ++i) {
            const int block = sent[i];
            if (block != expected[i]) return fail_message(sender, receiver, i, block, expected[i]);
            take(receiver, i, block, sender.rank, read(sender, sender.now.source, block));
        }
        if (barrier_) receiver.heard.unite(sender.told);
        ++sender.messages;
        sender.blocks_sent += count;
        sender.sending.meet(sender.now.to, receiver.rank, sender.rank);
        receiver.receiving.meet(receiver.now.from, sender.rank, receiver.rank);
        if (sender.step_over()) make_ready(sender);
        if (receiver.step_over()) make_ready(receiver);
    }

    /// Block i of a message.
    constexpr void take(state& self, int i, int block, int from, const Value& value) {
        switch (self.now.how) {
            case fold::store: return write(self, self.now.into, block, value);
            case fold::left:
                return write(self, self.now.into, block, join(self, block, value, read(self, self.now.mine, block)));
            case fold::right:
                return write(self, self.now.into, block, join(self, block, read(self, self.now.mine, block), value));
            default: self.arrived_from(self.now.from.index_of(from, self.rank), i) = value;
        }
    }

    // Work inside a rank

    constexpr void work_alone(state& self) {
        const local_work& work = self.now.local;
        for (int i = 0; i < work.blocks.size() && ok_; ++i) {
            const int block = work.blocks[i];
            Value value = read(self, work.left, block);
            if (work.what == local_work::kind::fold) value = join(self, block, value, read(self, work.right, block));
            write(self, work.into, block, value);
        }
    }

    constexpr void await_operands(state& self) {
        self.arrived.assign(static_cast<std::size_t>(self.receiving.count() * self.now.receive.size()), {});
    }

    constexpr void fold_arrived(state& self) {
        const step& now = self.now;
        const int operands = self.receiving.count() + (now.how == fold::in_rank_order ? 1 : 0);
        if (now.from.which() == peers::kind::none || operands == 0) return;
        for (int i = 0; i < now.receive.size() && ok_; ++i)
            write(self, now.into, now.receive[i], fold_range(self, i, operands, 0, operands));
    }

    /// The node [low, high) of the canonical tree of so many operands.
    [[nodiscard]] constexpr Value fold_range(state& self, int i, int operands, int low, int high) {
        if (high - low == 1) return operand(self, i, low);
        const int cut = canonical_cut(operands, low, high);
        const Value left = fold_range(self, i, operands, low, cut);
        return join(self, self.now.receive[i], left, fold_range(self, i, operands, cut, high));
    }

    /// Operand n of an ordered fold: its own stands between those of the lower and of the higher peers.
    [[nodiscard]] constexpr Value operand(state& self, int i, int n) {
        if (self.now.how == fold::peers_in_rank_order) return self.arrived_from(n, i);
        const int mine = self.now.from.count_below(self.rank, size_);
        if (n == mine) return read(self, self.now.mine, self.now.receive[i]);
        return self.arrived_from(n < mine ? n : n - 1, i);
    }

    [[nodiscard]] constexpr Value join(state& self, int block, const Value& left, const Value& right) {
        if (!ok_) return {};
        ++self.folds;
        const int operands = operands_at(self.rank);
        const fault why = Value::why_not(left, right, claimed_.keeps, operands);
        if (why == fault::none) return Value::join(left, right);
        fail({.what = why,
              .rank = self.rank,
              .round = self.round,
              .block = block,
              .wanted = operands,
              .left = left.held(),
              .right = right.held()});
        return {};
    }

    /// How many operands the result of a rank is made of: the canonical tree of that many is what `order::tree` means.
    [[nodiscard]] constexpr int operands_at(int rank) const noexcept {
        if (claimed_.goal == collective::inclusive_scan) return rank + 1;
        return claimed_.goal == collective::exclusive_scan ? rank : size_;
    }

    // The slots of all ranks

    [[nodiscard]] constexpr Value read(const state& self, slot where, int block) {
        if (!is_block(self, block)) return {};
        const Value value = where == slot::input ? operand_of(self.rank, block) : cell(self.rank, where, block);
        if (value.empty())
            fail({.what = fault::empty_slot, .rank = self.rank, .round = self.round, .block = block, .where = where});
        if (where == slot::input && claimed_.in_place) check_input_remains(self, block, value);
        return value;
    }

    constexpr void write(const state& self, slot where, int block, const Value& value) {
        if (!ok_ || !is_block(self, block)) return;
        if (!may_write(self.rank, where, block)) return fail_misplaced(self, where, block);
        slots_[static_cast<std::size_t>(where)].cells[index_of(self.rank, block)] = value;
        slots_[static_cast<std::size_t>(where)].used = true;
    }

    [[nodiscard]] constexpr Value operand_of(int rank, int block) const noexcept {
        return has_input(claimed_.goal, rank, block, claimed_.root) ? Value::of(rank, rank + 1) : Value{};
    }
    [[nodiscard]] constexpr Value cell(int rank, slot where, int block) const {
        const auto& slots = slots_[static_cast<std::size_t>(where)];
        return slots.used ? slots.cells[index_of(rank, block)] : Value{};
    }
    [[nodiscard]] constexpr std::size_t index_of(int rank, int block) const noexcept {
        return static_cast<std::size_t>(rank) * static_cast<std::size_t>(blocks_) + static_cast<std::size_t>(block);
    }
    [[nodiscard]] constexpr bool may_write(int rank, slot where, int block) const noexcept {
        switch (where) {
            case slot::input: return false;
            case slot::result: return has_result(claimed_.goal, rank, block, claimed_.root);
            case slot::scratch_a: return claimed_.scratch_slots >= 1;
            case slot::scratch_b: return claimed_.scratch_slots >= 2;
        }
        return false;
    }

    // Checks of a step

    constexpr void check_peers(const state& self, const peers& who) {
        const int count = who.count(self.rank, size_);
        if (count > 0) check_peer(self, who.at(0, self.rank));  // they are in rank order
        if (count > 1) check_peer(self, who.at(count - 1, self.rank));
    }
    constexpr void check_peer(const state& self, int peer) {
        if (peer < 0 || peer >= size_ || peer == self.rank)
            fail({.what = fault::no_such_peer, .rank = self.rank, .peer = peer, .round = self.round});
    }

    constexpr void check_fold(const state& self) {
        const int count = self.receiving.count();
        const bool per_peer = self.now.received == addressed::per_peer, ordered = self.folds_in_order();
        if (count > 0 && per_peer && ordered)
            fail({.what = fault::fold_unclear, .rank = self.rank, .round = self.round, .found = count});
        if (count > 1 && !per_peer && !ordered && !self.now.receive.empty())
            fail({.what = fault::fold_unclear,
                  .rank = self.rank,
                  .round = self.round,
                  .block = self.now.receive[0],
                  .found = count});
    }

    /// A block is not received to where it is sent from; where the input may be the result's memory, not there either.
    constexpr void check_not_sent(const state& self) {
        const slot source = self.now.source, into = self.now.into;
        const bool maybe_same = claimed_.in_place && source == slot::input && into == slot::result;
        if ((source != into && !maybe_same) || self.sending.over()) return;
        for (int i = 0; i < self.receiving.count() && ok_; ++i) {
            const block_set received = self.now.received_from(self.now.from.at(i, self.rank));
            for (int j = 0; j < received.size(); ++j)
                if (self.sends_block(received[j])) fail_overwritten(self, received[j], maybe_same);
            if (self.now.received == addressed::alike) return;
        }
    }

    /// In place, an input that has become something else cannot be read any more.
    constexpr void check_input_remains(const state& self, int block, const Value& value) {
        const Value in_its_place = cell(self.rank, slot::result, block);
        if (!in_its_place.empty() && !(in_its_place == value))
            fail({.what = fault::not_in_place,
                  .cause = fault::empty_slot,
                  .rank = self.rank,
                  .round = self.round,
                  .block = block});
    }

    [[nodiscard]] constexpr bool is_block(const state& self, int block) {
        if (block >= 0 && block < blocks_) return true;
        fail({.what = fault::no_such_block, .rank = self.rank, .round = self.round, .block = block, .wanted = blocks_});
        return false;
    }

    // Checks before and after the run

    constexpr void check_shape() {
        const int blocks = barrier_ ? 0 : blocks_ == 1 ? 1 : size_, rounds = size_ == 1 ? 0 : rounds_;
        for (int r = 0; r < size_ && ok_; ++r) {
            if (schedules_.blocks(r) != blocks)
                fail({.what = fault::blocks_differ, .rank = r, .found = schedules_.blocks(r), .wanted = blocks});
            if (schedules_.rounds(r) != rounds)
                fail({.what = fault::rounds_differ, .rank = r, .found = schedules_.rounds(r), .wanted = rounds});
        }
    }

    constexpr void check_end() {
        for (int r = 0; r < size_ && ok_; ++r)
            if (!ended(at(r))) fail(why_stuck(r));
        for (int r = 0; r < size_ && ok_; ++r) {
            if (barrier_) check_heard(at(r));
            for (int b = 0; b < blocks_; ++b)
                if (has_result(claimed_.goal, r, b, claimed_.root)) check_result(r, b);
        }
    }

    [[nodiscard]] constexpr bool ended(const state& self) const { return self.round == rounds_; }

    /// A peer that `self` still waits for in its step.
    [[nodiscard]] constexpr int waits_for(const state& self) const {
        for (int i = 0; i < self.sending.count(); ++i)
            if (const int peer = self.now.to.at(i, self.rank); self.sends_to(peer)) return peer;
        for (int i = 0; i < self.receiving.count(); ++i)
            if (const int peer = self.now.from.at(i, self.rank); self.receives_from(peer)) return peer;
        return self.rank;
    }

    /// Who follows the chain of those who wait comes to a rank that has ended, or goes in a circle.
    [[nodiscard]] constexpr proof why_stuck(int rank) const {
        rank_bits seen(size_);
        for (; !seen.contains(rank); rank = waits_for(at(rank))) {
            seen.insert(rank);
            const int peer = waits_for(at(rank));
            if (ended(at(peer)))
                return {.what = fault::unmatched,
                        .rank = rank,
                        .peer = peer,
                        .round = at(rank).round,
                        .found = at(rank).sends_to(peer) ? 1 : 0};
        }
        return circle_from(rank);
    }

    [[nodiscard]] constexpr proof circle_from(int rank) const {
        proof stuck{.what = fault::deadlock, .rank = rank, .peer = waits_for(at(rank)), .round = at(rank).round};
        int next = rank;
        do {
            if (stuck.circle_length < static_cast<int>(stuck.circle.size()))
                stuck.circle[static_cast<std::size_t>(stuck.circle_length)] = next;
            ++stuck.circle_length;
            next = waits_for(at(next));
        } while (next != rank);
        return stuck;
    }

    constexpr void check_heard(const state& self) {
        const int count = self.heard.count();
        if (count != size_)
            fail({.what = fault::wrong_result,
                  .rank = self.rank,
                  .left = {0, size_, count},
                  .right = {0, size_, size_}});
    }

    constexpr void check_result(int rank, int block) {
        const Value found = cell(rank, slot::result, block), wanted = promised(rank, block);
        if (!(found == wanted))
            fail({.what = fault::wrong_result,
                  .rank = rank,
                  .block = block,
                  .left = found.held(),
                  .right = wanted.held()});
    }

    [[nodiscard]] constexpr Value promised(int rank, int block) const noexcept {
        switch (claimed_.goal) {
            case collective::broadcast: return Value::of(claimed_.root, claimed_.root + 1);
            case collective::all_gather: return Value::of(block, block + 1);
            case collective::inclusive_scan: return Value::of(0, rank + 1);
            case collective::exclusive_scan: return Value::of(0, rank);
            default: return Value::of(0, size_);
        }
    }

    // The outcome

    constexpr void fail(const proof& what) {
        if (ok_) result_ = what;
        ok_ = false;
    }
    constexpr void fail_message(const state& sender, const state& receiver, int block, int found, int wanted) {
        fail({.what = fault::message_differs,
              .rank = sender.rank,
              .peer = receiver.rank,
              .round = sender.round,
              .block = block,
              .found = found,
              .wanted = wanted});
    }
    constexpr void fail_misplaced(const state& self, slot where, int block) {
        fail({.what = fault::misplaced,
              .rank = self.rank,
              .round = self.round,
              .block = block,
              .where = where,
              .wanted = claimed_.scratch_slots});
    }
    constexpr void fail_overwritten(const state& self, int block, bool in_place) {
        fail({.what = in_place ? fault::not_in_place : fault::overwrites_sent,
              .cause = fault::overwrites_sent,
              .rank = self.rank,
              .round = self.round,
              .block = block,
              .where = self.now.into});
    }

    constexpr void count() {
        result_.size = size_;
        result_.blocks = blocks_;
        result_.rounds = rounds_;
        result_.scratch_slots = static_cast<int>(slots_[2].used) + static_cast<int>(slots_[3].used);
        for (const state& each : ranks_) {
            result_.messages += each.messages;
            result_.blocks_sent += each.blocks_sent;
            result_.folds += each.folds;
            result_.busiest_blocks_sent = std::max(result_.busiest_blocks_sent, each.blocks_sent);
            result_.busiest_folds = std::max(result_.busiest_folds, each.folds);
        }
    }

    [[nodiscard]] constexpr state& at(int rank) const { return first_[rank]; }

    claim claimed_;
    bool barrier_;
    int size_;
    int blocks_;
    int rounds_;
    const schedules& schedules_;
    std::vector<state> ranks_;
    state* first_;  ///< of the ranks: at compile time a vector's own checks would double the cost of `at`
    slot_of_all_ranks<Value> slots_[4]{};
    int ready_ = -1;  ///< the first rank that may leave its step
    proof result_{};
    bool ok_ = true;
};

}  // namespace allfold::detail
