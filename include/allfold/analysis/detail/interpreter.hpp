// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>

#include "allfold/analysis/detail/constexpr_array.hpp"
#include "allfold/analysis/detail/rank_bits.hpp"
#include "allfold/analysis/detail/schedules.hpp"
#include "allfold/analysis/proof.hpp"
#include "allfold/schedule/step.hpp"

/// @file
/// The meaning of steps: runs all ranks of a schedule at once, without buffers between them, and reports to a reader
/// what happens. Apart from the engine, nothing else interprets steps: proofs, costs and pictures are readers.

namespace allfold::detail {

/// A block in one slot of a rank, and the round that the rank is in.
struct cell_at_rank {
    int rank;
    int round;
    slot where;
    int block;
};

/// The state of a rank during the run.
struct running_rank {
    int rank = 0;
    int round = -1;
    const schedules* all = nullptr;
    int next_ready = -1;  ///< links the ranks that may leave their step
    bool has_epilogue = false;
    step now{};
    step more{};  ///< the second part of its messages, if they have one
    pending_sends sending{};
    pending_receives receiving{};

    [[nodiscard]] constexpr bool step_over() const noexcept { return sending.over() && receiving.over(); }
    [[nodiscard]] constexpr bool sends_to(int peer) const noexcept { return sending.awaits(now.to, peer, rank); }
    [[nodiscard]] constexpr bool receives_from(int peer) const noexcept {
        return receiving.awaits(now.from, peer, rank);
    }
    [[nodiscard]] constexpr const step& part(int which) const noexcept { return which == 0 ? now : more; }
    [[nodiscard]] constexpr int parts() const noexcept { return now.has_more ? 2 : 1; }
    [[nodiscard]] constexpr cell_at_rank at(slot where, int block) const noexcept {
        return {rank, round, where, block};
    }

    [[nodiscard]] constexpr bool asks_for_operator() const noexcept {
        if (now.local.what == local_work::kind::fold || now.local.what == local_work::kind::identity) return true;
        if (receiving.count() == 0) return false;
        return now.how != fold::store || (now.has_more && more.how != fold::store);
    }

    /// The blocks of one part of the message to a peer, and of the one from a peer.
    [[nodiscard]] constexpr block_set sent_to(int which, int peer) const {
        const step& named = which == 0 ? now : more;
        return named.sent == addressed::alike ? named.send : all->sent_to(rank, round, peer);
    }
    [[nodiscard]] constexpr block_set received_from(int which, int peer) const {
        const step& named = which == 0 ? now : more;
        return named.received == addressed::alike ? named.receive : all->received_from(rank, round, peer);
    }
    [[nodiscard]] constexpr bool sends_block(int which, int block) const {
        if (part(which).sent == addressed::alike) return part(which).send.contains(block);
        for (int i = 0; i < sending.count(); ++i)
            if (sent_to(which, now.to.at(i, rank)).contains(block)) return true;
        return false;
    }
};

/// What readers have in common: the first fault, which ends the run, and handlers for events that they ignore. The
/// events of one rank are reported in its own order, and a message is received after it has been posted.
struct reader {
    bool ok = true;
    proof verdict{};

    constexpr void fail(const proof& what) {
        if (ok) verdict = what;
        ok = false;
    }

    /// The rank begins a step.
    constexpr void enters(const running_rank&) {}
    /// The messages of its step are ready to be taken.
    constexpr void posts(const running_rank&) {}
    /// A message is taken; how its blocks are combined has already been reported.
    constexpr void receives(const running_rank& /*sender*/, const running_rank& /*receiver*/, int /*blocks*/) {}
    /// into ← from, which may be at another rank.
    constexpr void copies(const running_rank&, const cell_at_rank& /*from*/, const cell_at_rank& /*into*/) {}
    /// into ← left ∘ right, one of which may be at another rank.
    constexpr void folds(const running_rank&, const cell_at_rank& /*left*/, const cell_at_rank& /*right*/,
                         const cell_at_rank& /*into*/) {}
    /// Block i of the given part of a peer's message is kept for an ordered fold. Peers are numbered as in the step.
    constexpr void keeps(const running_rank&, int /*part*/, int /*peer*/, int /*i*/, const cell_at_rank& /*from*/) {}
    /// into ← what was kept for block i of that part, in the order of peers, bracketed as the canonical tree. The
    /// rank's own operand, if there is one, is operand number `own`; otherwise `own` is -1.
    constexpr void folds_kept(const running_rank&, int /*part*/, int /*i*/, int /*own*/, const cell_at_rank& /*into*/) {
    }
    /// into ← the prefix before operand n, which lies one copy below, ∘ operand n of those kept for block i of that
    /// part, numbered as above; for the first operand, just that operand.
    constexpr void folds_prefix(const running_rank&, int /*part*/, int /*i*/, int /*own*/, int /*n*/,
                                const cell_at_rank& /*into*/) {}
    /// A copy that was made to be sent has been sent; it may never have been made.
    constexpr void drops(const running_rank&, const cell_at_rank& /*copy*/) {}
    /// into ← the identity
    constexpr void erases(const running_rank&, const cell_at_rank& /*into*/) {}
    /// After the run: a rank that cannot leave its step, and a peer that it waits for.
    constexpr void waits(const running_rank&, int /*peer*/) {}
};

/// A rank leaves a step when each message of that step has met its counterpart in the step that the peer is in at the
/// time; it takes messages in the order of its peers. A rank that cannot leave its step in the end is stuck.
template <class Reader>
class interpreter {
  public:
    constexpr interpreter(int size, const schedules& all, Reader& reads)
        : size_(size),
          rounds_(all.rounds(0)),
          group_(all.group()),
          schedules_(all),
          reader_(reads),
          ranks_(static_cast<std::size_t>(size)),
          first_(ranks_.data()) {
        for (int r = 0; r < size_; ++r) {
            at(r).rank = r;
            at(r).all = &all;
        }
    }

    interpreter(const interpreter&) = delete;
    interpreter& operator=(const interpreter&) = delete;

    /// All steps of all ranks.
    constexpr void run() {
        for (int r = 0; r < size_; ++r) start(r);
        while (advance()) {
        }
        report_stuck();
    }

    /// Runs the ranks as fused steps run: one after another, since no two touch the same block.
    constexpr void run_fused(const constexpr_array<fused_pass>& passes) {
        for (const fused_pass& pass : passes)
            if (reader_.ok) run_fused(at(pass.block), pass);
    }

    // Several interpreters may take turns: no rank does anything before it is started.

    constexpr void start(int rank) { make_ready(at(rank)); }
    /// Lets one rank that can go on do so; false if there is none.
    constexpr bool advance() {
        if (ready_ < 0 || !reader_.ok) return false;
        state& self = at(ready_);
        ready_ = self.next_ready;
        next_step(self);
        return true;
    }
    [[nodiscard]] constexpr bool ended(int rank) const { return at(rank).round == rounds_; }

    /// A peer that a rank waits for in its step; the rank itself if it waits for none.
    [[nodiscard]] constexpr int waits_for(int rank) const { return waits_for(at(rank)); }
    /// The fault of a rank that waits for one that has ended.
    [[nodiscard]] constexpr proof unmatched(int rank, int peer) const {
        return {.what = fault::unmatched,
                .rank = rank,
                .peer = peer,
                .round = at(rank).round,
                .found = at(rank).sends_to(peer) ? 1 : 0};
    }

    constexpr void report_stuck() {
        for (int r = 0; r < size_ && reader_.ok; ++r)
            if (!ended(r)) reader_.waits(at(r), waits_for(at(r)));
        for (int r = 0; r < size_ && reader_.ok; ++r)
            if (!ended(r)) reader_.fail(why_stuck(r));
    }

  private:
    using state = running_rank;

    // The course of the run

    constexpr void next_step(state& self) {
        if (self.has_epilogue) finish(self);
        if (++self.round == rounds_) return;
        begin(self);
        if (!reader_.ok) return;
        if (self.now.local.what != local_work::kind::none) work_alone(self);
        reader_.posts(self);
        if (self.step_over())
            make_ready(self);
        else
            match_peers(self);
    }

    constexpr void begin(state& self) {
        const step& now = self.now = schedules_.at(self.rank, self.round);
        if (now.has_more) self.more = schedules_.also(self.rank, self.round);
        self.has_epilogue = now.has_more || now.folds_in_order() || now.local.what == local_work::kind::identity ||
                            now.local.what == local_work::kind::copy_to_send;
        self.sending.open(now.to, self.rank, size_);
        self.receiving.open(now.from, self.rank, size_);
        check_peers(self, now.to, self.sending.count());
        check_peers(self, now.from, self.receiving.count());
        if (self.receiving.count() > 0) check_fold(self, now);
        if (now.has_more) check_second_part(self);
        if (now.local.what == local_work::kind::identity) check_identity(self);
        if (schedules_.fold_once()) check_fold_once(self);
        if (self.has_epilogue && self.receiving.count() == 1) fold_at_once(self);
        if (reader_.ok) reader_.enters(self);
    }
    /// As the engine does it: an ordered fold of one message does not wait for the end of the step.
    constexpr void fold_at_once(state& self) {
        const int peer = self.now.from.at(0, self.rank);
        self.now.how = fold_of_one(self.now.how, peer, self.rank);
        if (self.now.has_more) self.more.how = fold_of_one(self.more.how, peer, self.rank);
    }

    constexpr void make_ready(state& self) {
        self.next_ready = ready_;
        ready_ = self.rank;
    }

    constexpr void match_peers(state& self) {
        for (int i = 0; i < self.sending.count() && reader_.ok; ++i) {
            state& peer = at(self.now.to.at(i, self.rank));
            if (peer.receives_from(self.rank)) take_all(peer);
        }
        take_all(self);
    }
    /// Takes the messages of a step in the order of its peers, as the engine does, as far as they are there.
    constexpr void take_all(state& self) {
        while (!self.receiving.over() && reader_.ok) {
            state& peer = at(self.now.from.at(self.receiving.met(), self.rank));
            if (!peer.sends_to(self.rank)) return;
            transfer(peer, self);
        }
    }

    /// What is left to do when all messages of a step have been sent and taken.
    constexpr void finish(state& self) {
        for (int part = 0; part < self.parts(); ++part) fold_kept(self, part);
        const local_work& work = self.now.local;
        if (work.what == local_work::kind::identity)
            for (int i = 0; i < work.blocks.size(); ++i) reader_.erases(self, self.at(work.into, work.target(i)));
        else if (work.what == local_work::kind::copy_to_send)
            for (int i = 0; i < work.blocks.size(); ++i) reader_.drops(self, self.at(work.into, work.blocks[i]));
    }

    // One message

    constexpr void transfer(state& sender, state& receiver) {
        if (sender.now.has_more || receiver.now.has_more) return transfer_parts(sender, receiver);
        const block_set sent = sender.sent_to(0, receiver.rank), taken = receiver.received_from(0, sender.rank);
        const int count = sent.size();
        if (count != taken.size()) return fail_message(sender, receiver, count, taken.size());
        for (int i = 0; i < count && reader_.ok; ++i)
            take(receiver, 0, i, sender.at(sender.now.source, sent[i]), taken[i]);
        arrive(sender, receiver, count);
    }

    /// The blocks of both parts of a message, as one of its two sides names them.
    struct side {
        block_set first;
        block_set more;
        [[nodiscard]] constexpr int size() const noexcept { return first.size() + more.size(); }
        [[nodiscard]] constexpr bool is_first(int i) const noexcept { return i < first.size(); }
        [[nodiscard]] constexpr int in_part(int i) const noexcept { return is_first(i) ? i : i - first.size(); }
        [[nodiscard]] constexpr int operator[](int i) const noexcept {
            return (is_first(i) ? first : more)[in_part(i)];
        }
    };
    constexpr void transfer_parts(state& sender, state& receiver) {
        const bool more_sent = sender.now.has_more, more_taken = receiver.now.has_more;
        const side sent{sender.sent_to(0, receiver.rank), more_sent ? sender.sent_to(1, receiver.rank) : block_set()};
        const side taken{receiver.received_from(0, sender.rank),
                         more_taken ? receiver.received_from(1, sender.rank) : block_set()};
        if (sent.size() != taken.size()) return fail_message(sender, receiver, sent.size(), taken.size());
        for (int i = 0; i < sent.size() && reader_.ok; ++i) {
            const slot source = sender.part(sent.is_first(i) ? 0 : 1).source;
            take(receiver, taken.is_first(i) ? 0 : 1, taken.in_part(i), sender.at(source, sent[i]), taken[i]);
        }
        arrive(sender, receiver, sent.size());
    }

    constexpr void arrive(state& sender, state& receiver, int blocks) {
        reader_.receives(sender, receiver, blocks);
        receiver.receiving.complete_one();
        if (!receiver.now.folds_in_order())
            let_go(sender, receiver);
        else if (receiver.receiving.over())  // until then, an ordered fold keeps all messages where they are
            for (int i = 0; i < receiver.receiving.count(); ++i)
                let_go(at(receiver.now.from.at(i, receiver.rank)), receiver);
        if (receiver.step_over()) make_ready(receiver);
    }
    constexpr void let_go(state& sender, const state& receiver) {
        sender.sending.complete_one(sender.now.to, receiver.rank, sender.rank);
        if (sender.step_over()) make_ready(sender);
    }

    /// Takes block i of a part of a message.
    constexpr void take(state& self, int part, int i, const cell_at_rank& from, int block) {
        const step& now = part == 0 ? self.now : self.more;
        const cell_at_rank into{self.rank, self.round, now.into, block}, mine{self.rank, self.round, now.mine, block};
        switch (now.how) {
            case fold::store: return reader_.copies(self, from, into);
            case fold::left: return reader_.folds(self, from, mine, into);
            case fold::right: return reader_.folds(self, mine, from, into);
            default: reader_.keeps(self, part, self.now.from.index_of(from.rank, self.rank), i, from);
        }
    }

    // Work inside a rank

    constexpr void work_alone(state& self) {
        const local_work& work = self.now.local;
        if (work.what == local_work::kind::identity) return;  // done at the end of the step
        if (!work.targets.empty() && work.targets.size() != work.blocks.size()) return fail_targets(self);
        if (work.what == local_work::kind::copy_to_send && !sends_copy(self.now)) return fail_copy(self);
        for (int i = 0; i < work.blocks.size() && reader_.ok; ++i) {
            const cell_at_rank left = self.at(work.left, work.blocks[i]), into = self.at(work.into, work.target(i));
            if (work.what == local_work::kind::fold)
                reader_.folds(self, left, self.at(work.right, work.blocks[i]), into);
            else
                reader_.copies(self, left, into);
        }
    }

    /// Whether the engine may send the original instead of the copy.
    [[nodiscard]] static constexpr bool sends_copy(const step& now) {
        const bool reads_it = now.how != fold::store && now.mine == now.local.into;
        return now.source == now.local.into && now.sent == addressed::alike && now.send == now.local.blocks &&
               now.local.targets.empty() && !now.has_more && !reads_it;
    }

    constexpr void fold_kept(state& self, int part) {
        const step& now = self.part(part);
        if (!now.folds_in_order() || self.receiving.count() == 0) return;
        const int below = self.now.from.count_below(self.rank, size_);
        if (now.folds_prefixes()) {
            for (int n = 0; n <= self.receiving.count() && reader_.ok; ++n)
                reader_.folds_prefix(self, part, 0, below, n, self.at(now.into, n));
            return;
        }
        const int own = now.how == fold::in_rank_order ? below : -1;
        for (int i = 0; i < now.receive.size() && reader_.ok; ++i)
            reader_.folds_kept(self, part, i, own, self.at(now.into, now.receive[i]));
    }

    // Steps that are fused

    /// The rank reads its own block of all inputs in place, folds it as its first step says, and stores it in the
    /// results of the ranks to which its second step sends it; for prefixes, it stores each rank's prefix in that
    /// rank's result.
    constexpr void run_fused(state& self, const fused_pass& pass) {
        self.round = 0;
        if (pass.each == share::copy) return hand_out(self, pass);
        self.now = schedules_.at(self.rank, 0);
        self.receiving.open(self.now.from, self.rank, size_);
        self.has_epilogue = true;
        reader_.enters(self);
        for (int i = 0; i < size_ - 1 && reader_.ok; ++i)
            reader_.keeps(self, 0, i, 0, at(self.now.from.at(i, self.rank)).at(slot::input, pass.block));
        fold_kept(self, 0);
        if (pass.each != share::fold) return share_prefixes(self, pass);
        for (int i = 0; i < pass.targets.count(self.rank, size_) && reader_.ok; ++i) {
            const state& target = at(pass.targets.at(i, self.rank));
            reader_.copies(self, self.at(self.now.into, pass.block), target.at(slot::result, pass.block));
        }
    }
    constexpr void hand_out(state& self, const fused_pass& pass) {
        const cell_at_rank from = at(pass.source).at(slot::input, pass.block);
        for (int r = 0; r < size_ && reader_.ok; ++r)
            if (r == self.rank ? pass.keeps_own : pass.targets.contains(r, self.rank))
                reader_.copies(self, from, at(r).at(slot::result, pass.block));
    }
    constexpr void share_prefixes(state& self, const fused_pass& pass) {
        for (int r = 0; r < size_ && reader_.ok; ++r) {
            const cell_at_rank into = at(r).at(slot::result, pass.block);
            if (const int operands = pass.operands_of(r, size_); operands > 0)
                reader_.copies(self, self.at(self.now.into, operands - 1), into);
            else
                reader_.erases(self, into);
        }
    }

    // Checks of a step

    constexpr void check_peers(const state& self, const peers& who, int count) {
        if (count == 0) return;
        check_peer(self, who.at(0, self.rank));  // they are in rank order
        if (count == 1) return;
        check_peer(self, who.at(count - 1, self.rank));
        if (group_ > 1)
            for (int i = 1; i < count - 1 && reader_.ok; ++i) check_peer(self, who.at(i, self.rank));
        if (who.which() != peers::kind::strided) return;
        for (int i = 1; i < count && reader_.ok; ++i)  // wraps around more than once, or passes through the rank itself
            if (who.at(i, self.rank) == self.rank || who.at(i, self.rank) <= who.at(i - 1, self.rank))
                fail_peer(self, who.at(i, self.rank));
    }
    constexpr void check_peer(const state& self, int peer) {
        if (peer < 0 || peer >= size_ || peer == self.rank) return fail_peer(self, peer);
        if (group_ > 1 && !is_reached(self.rank, peer))
            reader_.fail({.what = fault::other_group, .rank = self.rank, .peer = peer, .round = self.round});
    }
    /// Only the first ranks of groups communicate with other groups.
    [[nodiscard]] constexpr bool is_reached(int rank, int peer) const noexcept {
        return rank / group_ == peer / group_ || (rank % group_ == 0 && peer % group_ == 0);
    }

    constexpr void check_fold(const state& self, const step& part) {
        const int count = self.receiving.count();
        if (part.folds_prefixes() && !keeps_prefixes(self, part))
            reader_.fail({.what = fault::no_copies,
                          .rank = self.rank,
                          .round = self.round,
                          .block = part.receive.empty() ? -1 : part.receive[0],
                          .where = part.into});
        if (part.received == addressed::per_peer ? part.folds_in_order()
                                                 : count > 1 && !part.folds_in_order() && !part.receive.empty())
            reader_.fail({.what = fault::fold_unclear,
                          .rank = self.rank,
                          .round = self.round,
                          .block = part.received == addressed::per_peer ? -1 : part.receive[0],
                          .found = count});
    }

    constexpr void check_second_part(const state& self) {
        const step& more = self.more;
        if (self.receiving.count() > 0) check_fold(self, more);
        if (more.sent == addressed::per_peer || more.received == addressed::per_peer)
            fail_step(self, not_run::second_part_per_peer);
        const bool is_ordered = self.now.folds_in_order() || more.folds_in_order();
        const bool folds_prefixes = self.now.folds_prefixes() || more.folds_prefixes();
        if (folds_prefixes || (is_ordered && self.receiving.count() > 1))
            fail_step(self, not_run::ordered_fold_of_parts);
    }
    constexpr void check_identity(const state& self) {
        const local_work& work = self.now.local;
        if (work.into != slot::result || !work.targets.empty()) fail_step(self, not_run::identity_elsewhere);
    }

    /// In the first step there is nothing but operands; what is folded there is passed on as it is.
    constexpr void check_fold_once(const state& self) {
        const step& now = self.now;
        const bool folds = self.receiving.count() > 0 && now.how != fold::store;
        const bool folds_all = now.how == fold::in_rank_order || (size_ == 2 && now.how != fold::peers_in_rank_order);
        const bool folds_operands = self.round == 0 && folds_all && now.mine == slot::input;
        const bool works = now.local.what == local_work::kind::fold || now.has_more;
        if ((folds && !folds_operands) || works)
            reader_.fail({.what = fault::folds_again, .rank = self.rank, .round = self.round});
    }

    /// Whether the prefixes go to a scratch slot that has copies of that block alone.
    [[nodiscard]] constexpr bool keeps_prefixes(const state& self, const step& part) const {
        const scratch_blocks scratch = schedules_.scratch(self.rank);
        return is_scratch(part.into) && scratch.of_one_block() && part.receive == block_set::one(scratch.only);
    }

    // Who waits for whom

    /// A peer that `self` still waits for in its step; itself if it has never begun.
    [[nodiscard]] constexpr int waits_for(const state& self) const {
        for (int i = 0; i < self.sending.count(); ++i)
            if (const int peer = self.now.to.at(i, self.rank); self.sends_to(peer)) return peer;
        for (int i = 0; i < self.receiving.count(); ++i)
            if (const int peer = self.now.from.at(i, self.rank); self.receives_from(peer)) return peer;
        return self.rank;
    }

    /// Whether `peer` takes part, in its current step or a later one, in a message such as `self` waits for.
    [[nodiscard]] constexpr bool may_answer(const state& self, const state& peer) const {
        for (int round = peer.round; round < rounds_; ++round) {
            const step later = schedules_.at(peer.rank, round);
            const peers& partners = self.sends_to(peer.rank) ? later.from : later.to;
            if (partners.contains(self.rank, peer.rank)) return true;
        }
        return false;
    }

    /// The chain of waiting ranks leads to a rank that never answers, or into a cycle.
    [[nodiscard]] constexpr proof why_stuck(int rank) const {
        rank_bits seen(size_);
        for (; !seen.contains(rank); rank = waits_for(at(rank))) {
            seen.insert(rank);
            const int peer = waits_for(at(rank));
            if (peer != rank && !may_answer(at(rank), at(peer))) return unmatched(rank, peer);
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

    // Faults

    constexpr void fail_peer(const state& self, int peer) {
        reader_.fail({.what = fault::no_such_peer, .rank = self.rank, .peer = peer, .round = self.round});
    }
    constexpr void fail_message(const state& sender, const state& receiver, int found, int wanted) {
        reader_.fail({.what = fault::message_differs,
                      .rank = sender.rank,
                      .peer = receiver.rank,
                      .round = sender.round,
                      .found = found,
                      .wanted = wanted});
    }
    constexpr void fail_step(const state& self, not_run why) {
        reader_.fail(
            {.what = fault::cannot_run, .rank = self.rank, .round = self.round, .found = static_cast<int>(why)});
    }
    constexpr void fail_copy(const state& self) {
        reader_.fail({.what = fault::copy_not_sent, .rank = self.rank, .round = self.round});
    }
    constexpr void fail_targets(const state& self) {
        reader_.fail({.what = fault::targets_differ,
                      .rank = self.rank,
                      .round = self.round,
                      .found = self.now.local.blocks.size(),
                      .wanted = self.now.local.targets.size()});
    }

    [[nodiscard]] constexpr state& at(int rank) const { return first_[rank]; }

    int size_;
    int rounds_;
    int group_;
    const schedules& schedules_;
    Reader& reader_;
    constexpr_array<state> ranks_;
    state* first_;    ///< the data of `ranks_`: at compile time the calls of its operator would double the cost of `at`
    int ready_ = -1;  ///< the first rank that may leave its step
};

}  // namespace allfold::detail
