// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include "allfold/schedule/schedule_of.hpp"
#include "allfold/schedule/step.hpp"

/// @file
/// Direct: every rank owns one block, gets that block of all operands from their ranks, folds it in rank order and
/// publishes the result; in a scan it sends each rank its prefix.
///
///     P = 4     round 0: own block of everyone       round 1: everyone's block
///     rank 0    block 0 ◄── 1, 2, 3                  ◄── 1: block 1   2: block 2   3: block 3
///          1    block 1 ◄── 0, 2, 3                  ◄── 0: block 0   2: block 2   3: block 3
///          2    block 2 ◄── 0, 1, 3                  ◄── 0: block 0   1: block 1   3: block 3
///          3    block 3 ◄── 0, 1, 2                  ◄── 0: block 0   1: block 1   2: block 2
///
/// With blocks of b = m / P bytes: 2 rounds for all_reduce, reduce and the scans, 1 for the others; in all_reduce a
/// rank sends 2·(P - 1)·b in 2·(P - 1) messages and folds (P - 1)·b: the least possible volume and work. If ranks share
/// memory, this is also the lower bound for memory traffic: all_reduce is one pass that reads every input once and
/// writes every output once. Folds are bracketed as the canonical tree, except for the prefixes of a scan: each is the
/// previous prefix folded with one more operand, from left to right. A scan costs as much as all_reduce.
///
/// Source: the large-message kernels of NCCL's symmetric memory (RSxLD_AGxST: load and fold one slice of every rank,
/// store it to every rank), 2025. Scans apply the same idea.

namespace allfold {

/// The least volume in two rounds: for shared memory, and for networks without contention.
struct direct {
    static constexpr const char* name = "direct";

    class all_reduce : public schedule_of<direct> {
      public:
        static constexpr order keeps = order::tree;
        static constexpr bool folds_once = true;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return size(); }
        [[nodiscard]] constexpr int rounds() const noexcept { return size() > 1 ? 2 : 0; }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            return round == 0 ? fold_own_block(rank(), slot::result) : publish_own_block(rank(), slot::result);
        }
    };

    class reduce : public schedule_of<direct> {
      public:
        static constexpr order keeps = order::tree;
        static constexpr bool folds_once = true;
        static constexpr int scratch_slots = 1;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return size(); }
        [[nodiscard]] constexpr int rounds() const noexcept { return size() > 1 ? 2 : 0; }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            if (round == 0) return fold_own_block(rank(), is_root() ? slot::result : slot::scratch_a);
            if (is_root()) return {.from = peers::everyone(), .received = addressed::per_peer};
            return {.to = peers::one(root()), .send = block_set::one(rank()), .source = slot::scratch_a};
        }
    };

    class reduce_scatter : public schedule_of<direct> {
      public:
        static constexpr order keeps = order::tree;
        static constexpr bool folds_once = true;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return size(); }
        [[nodiscard]] constexpr int rounds() const noexcept { return size() > 1 ? 1 : 0; }
        [[nodiscard]] constexpr step operator[](int) const noexcept { return fold_own_block(rank(), slot::result); }
    };

    class all_gather : public schedule_of<direct> {
      public:
        static constexpr order keeps = order::tree;
        static constexpr bool one_pass = true;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return size(); }
        [[nodiscard]] constexpr int rounds() const noexcept { return size() > 1 ? 1 : 0; }
        [[nodiscard]] constexpr step operator[](int) const noexcept {
            step s = publish_own_block(rank(), slot::input);
            s.local = keep_input(block_set::one(rank()));
            return s;
        }
    };

    class broadcast : public schedule_of<direct> {
      public:
        static constexpr order keeps = order::tree;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return 1; }
        [[nodiscard]] constexpr int rounds() const noexcept { return size() > 1 ? 1 : 0; }
        [[nodiscard]] constexpr step operator[](int) const noexcept {
            if (!is_root()) return {.from = peers::one(root()), .receive = block_set::one(0)};
            return {.local = keep_input(block_set::one(0)), .to = peers::everyone(), .send = block_set::one(0)};
        }
    };

    class inclusive_scan : public schedule_of<direct> {
      public:
        static constexpr order keeps = order::rank;
        static constexpr int scratch_slots = 1;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return size(); }
        [[nodiscard]] constexpr scratch_blocks scratch() const noexcept { return {size(), rank()}; }
        [[nodiscard]] constexpr int rounds() const noexcept { return size() > 1 ? 2 : 0; }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            return round == 0 ? fold_prefixes(rank()) : publish_prefixes(rank(), rank(), peers::everyone());
        }
    };

    /// As in inclusive_scan, the fold of all operands is computed along with the other prefixes; here no rank gets it.
    class exclusive_scan : public schedule_of<direct> {
      public:
        static constexpr order keeps = order::rank;
        static constexpr int scratch_slots = 1;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return size(); }
        [[nodiscard]] constexpr scratch_blocks scratch() const noexcept { return {size(), rank()}; }
        [[nodiscard]] constexpr int rounds() const noexcept { return size() > 1 ? 2 : 0; }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            if (round == 0) return fold_prefixes(rank());
            step s = publish_prefixes(rank(), rank() - 1, peers::range(1, size()));
            if (rank() > 0) return s;
            s.local = set_identity(block_set::all(size()));
            s.from = {};
            return s;
        }
        [[nodiscard]] constexpr block_set sent_to(int round, int peer) const noexcept {
            return block_set::one(round == 0 ? peer : peer - 1);
        }
    };

    /// Every rank sends each other rank its block: one round, P - 1 messages and (P - 1)/P of its operand.
    class all_to_all : public schedule_of<direct> {
      public:
        static constexpr order keeps = order::tree;
        static constexpr bool in_place = false;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return size(); }
        [[nodiscard]] constexpr int rounds() const noexcept { return size() > 1 ? 1 : 0; }
        [[nodiscard]] constexpr step operator[](int) const noexcept {
            return {.local = keep_input(block_set::one(rank())),
                    .to = peers::everyone(),
                    .sent = addressed::per_peer,
                    .from = peers::everyone(),
                    .received = addressed::per_peer};
        }
    };

    /// Every rank sends its operand to one rank and gets the operand of one rank: one round, one message each. If that
    /// rank is itself, its operand stays there.
    class permute : public schedule_of<direct> {
      public:
        static constexpr order keeps = order::tree;
        static constexpr bool in_place = false;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return 1; }
        [[nodiscard]] constexpr int rounds() const noexcept { return size() > 1 ? 1 : 0; }
        [[nodiscard]] constexpr step operator[](int) const noexcept {
            const int to = where().destination_of(rank());
            const block_set whole = block_set::one(0);
            if (to == rank()) return {.local = keep_input(whole)};
            return {
                .to = peers::one(to), .send = whole, .from = peers::one(where().origin_of(rank())), .receive = whole};
        }
    };

  private:
    [[nodiscard]] static constexpr step fold_own_block(int rank, slot into) noexcept {
        return {.to = peers::everyone(),
                .sent = addressed::per_peer,
                .from = peers::everyone(),
                .receive = block_set::one(rank),
                .how = fold::in_rank_order,
                .into = into};
    }
    [[nodiscard]] static constexpr step publish_own_block(int rank, slot source) noexcept {
        return {.to = peers::everyone(),
                .send = block_set::one(rank),
                .source = source,
                .from = peers::everyone(),
                .received = addressed::per_peer};
    }
    [[nodiscard]] static constexpr step fold_prefixes(int rank) noexcept {
        step s = fold_own_block(rank, slot::scratch_a);
        s.how = fold::prefixes_in_rank_order;
        return s;
    }
    /// Publishes the prefixes of this rank's block; `kept` is the number of the prefix that stays here.
    [[nodiscard]] static constexpr step publish_prefixes(int rank, int kept, peers to) noexcept {
        return {.local = {.what = local_work::kind::copy,
                          .left = slot::scratch_a,
                          .blocks = block_set::one(kept),
                          .targets = block_set::one(rank)},
                .to = to,
                .sent = addressed::per_peer,
                .source = slot::scratch_a,
                .from = peers::everyone(),
                .received = addressed::per_peer};
    }
};

}  // namespace allfold
