// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>

#include "allfold/schedule/canonical_tree.hpp"
#include "allfold/schedule/detail/doubling.hpp"
#include "allfold/schedule/schedule_of.hpp"
#include "allfold/schedule/step.hpp"

/// @file
/// Binomial trees that keep rank order for any root.
///
///     P = 6, reduce to rank 2    round 0     round 1     round 2
///     rank 0                     ──┐
///          1                     ◄─┘ 01      ──┐
///          2                     ◄─┐ 23      ◄─┘ 0..3    ◄─┐ 0..5
///          3                     ──┘                       │
///          4                                 ◄─┐ 45      ──┘
///          5                                 ──┘
///
/// First the pairs of the canonical tree fold, then its leaves as in recursive doubling, but only towards the root,
/// which represents its own pair. A leaf is free to send its fold to whichever rank of the sibling node is nearest to
/// the root, so rank order needs no extra hop for any root. Broadcast is the mirror image.
///
/// With m bytes: ⌈log2 P⌉ rounds. In a reduce every rank but the root sends m, and the root folds at most ⌈log2 P⌉·m;
/// in a broadcast the root sends at most ⌈log2 P⌉·m.
///
/// Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH", 2005.
/// Departure: the paper counts partners from the root, which keeps rank order for root 0 only.

namespace allfold {

/// The fewest rounds to or from a root.
struct binomial {
    static constexpr const char* name = "binomial tree";

    class reduce : public schedule_of<binomial> {
      public:
        static constexpr order keeps = order::tree;
        static constexpr int scratch_slots = 1;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return 1; }
        [[nodiscard]] constexpr int rounds() const noexcept { return power_of_two_fold(size()).rounds(); }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            const link towards_root = link_of(*this, round);
            const slot partial = is_root() ? slot::result : slot::scratch_a;
            const slot mine = towards_root.first ? slot::input : partial;
            if (towards_root.sends)
                return {.to = peers::one(towards_root.peer), .send = block_set::one(0), .source = mine};
            if (towards_root.receives)
                return {.from = peers::one(towards_root.peer),
                        .receive = block_set::one(0),
                        .how = side_of(towards_root.peer, rank()),
                        .mine = mine,
                        .into = partial};
            return {};
        }
    };

    class broadcast : public schedule_of<binomial> {
      public:
        static constexpr order keeps = order::tree;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return 1; }
        [[nodiscard]] constexpr int rounds() const noexcept { return power_of_two_fold(size()).rounds(); }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            const link towards_root = link_of(*this, rounds() - 1 - round);
            step s;
            if (is_root() && round == 0) s.local = keep_input(block_set::one(0));
            if (towards_root.sends) {
                s.from = peers::one(towards_root.peer);
                s.receive = block_set::one(0);
            }
            if (towards_root.receives) {
                s.to = peers::one(towards_root.peer);
                s.send = block_set::one(0);
                s.source = is_root() ? slot::input : slot::result;
            }
            return s;
        }
    };

    /// A gather along a binomial tree, with ranks counted from the root. In round k the ranks with bit k set and no
    /// lower bit set send the blocks they have so far, those of the 2^k ranks from their own on, to the rank 2^k below.
    ///
    ///     P = 6, root 0     round 0      round 1         round 2
    ///     rank 0            ◄─┐ 01       ◄─┐ 0..3        ◄─┐ 0..5
    ///          1            ──┘            │               │
    ///          2            ◄─┐ 23       ──┘               │
    ///          3            ──┘                            │
    ///          4            ◄─┐ 45                       ──┘
    ///          5            ──┘
    ///
    /// ⌈log2 P⌉ rounds, P - 1 messages; a block is sent once for each bit set in its distance from the root.
    class gather : public schedule_of<binomial> {
      public:
        static constexpr order keeps = order::tree;
        static constexpr int scratch_slots = 1;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return size(); }
        [[nodiscard]] constexpr int rounds() const noexcept { return detail::ceil_log2(size()); }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            const int from_root = above_root(*this), distance = 1 << round;
            const bool receives = from_root % (2 * distance) == 0 && from_root + distance < size();
            const slot mine = is_root() ? slot::result : slot::scratch_a;
            step s;
            if (round == 0 && (is_root() || receives))
                s.local = {.what = local_work::kind::copy, .into = mine, .blocks = block_set::one(rank())};
            if (from_root % (2 * distance) == distance) {
                s.to = peers::one((rank() - distance + size()) % size());
                s.send = blocks_from(*this, from_root, distance);
                s.source = shares_subtree(from_root, size()) ? mine : slot::input;
            } else if (receives) {
                s.from = peers::one((rank() + distance) % size());
                s.receive = blocks_from(*this, from_root + distance, distance);
                s.into = mine;
            }
            return s;
        }
    };

    /// The mirror image of the gather: in round ⌈log2 P⌉ - 1 - k, the ranks with bit k set and no lower bit set get the
    /// blocks of the 2^k ranks from their own on. Rounds, messages and volume are the same.
    class scatter : public schedule_of<binomial> {
      public:
        static constexpr order keeps = order::tree;
        static constexpr int scratch_slots = 1;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return size(); }
        [[nodiscard]] constexpr int rounds() const noexcept { return detail::ceil_log2(size()); }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            const int from_root = above_root(*this), distance = 1 << (rounds() - 1 - round);
            const slot held = is_root() ? slot::input : slot::scratch_a;
            step s;
            if (is_root() && round == 0) s.local = keep_input(block_set::one(rank()));
            if (from_root % (2 * distance) == distance) {
                s.from = peers::one((rank() - distance + size()) % size());
                s.receive = blocks_from(*this, from_root, distance);
                s.into = shares_subtree(from_root, size()) ? held : slot::result;
            } else if (from_root % (2 * distance) == 0 && from_root + distance < size()) {
                s.to = peers::one((rank() + distance) % size());
                s.send = blocks_from(*this, from_root + distance, distance);
                s.source = held;
                if (!is_root() && distance == 1)
                    s.local = {.what = local_work::kind::copy, .left = held, .blocks = block_set::one(rank())};
            }
            return s;
        }
    };

  private:
    // Helpers of gather and scatter

    /// The rank, counted from the root.
    [[nodiscard]] static constexpr int above_root(const schedule_of<binomial>& self) noexcept {
        return (self.rank() - self.root() + self.size()) % self.size();
    }
    /// The blocks of the `count` ranks from `first` on, counted from the root, or of as many as there are.
    [[nodiscard]] static constexpr block_set blocks_from(const schedule_of<binomial>& self, int first,
                                                         int count) noexcept {
        const int size = self.size();
        return block_set::wrapping((first + self.root()) % size, std::min(count, size - first), size);
    }
    /// Whether a rank forwards blocks of other ranks: its own block is then stored along with them.
    [[nodiscard]] static constexpr bool shares_subtree(int from_root, int size) noexcept {
        return from_root % 2 == 0 && from_root + 1 < size;
    }

    /// What one rank does in one round of a reduce.
    struct link {
        bool sends = false;
        bool receives = false;
        bool first = false;  ///< this rank has not folded anything in yet
        int peer = 0;
    };

    [[nodiscard]] static constexpr link link_of(const schedule_of<binomial>& self, int round) noexcept {
        const power_of_two_fold ranks(self.size());
        const int level = ranks.extra ? round - 1 : round;
        if (level < 0) return link_in_pair(self, ranks);
        const int leaf = ranks.leaf_of(self.rank()), from_root = leaf ^ ranks.leaf_of(self.root());
        const bool below = (from_root & ((1 << level) - 1)) == 0;
        if (self.rank() != stands_for(leaf, self.root(), ranks) || !below) return {};
        const bool sends = (from_root >> level & 1) != 0;
        return {.sends = sends,
                .receives = !sends,
                .first = level == 0 && !ranks.paired(self.rank()),
                .peer = stands_for(leaf ^ (1 << level), self.root(), ranks)};
    }

    [[nodiscard]] static constexpr link link_in_pair(const schedule_of<binomial>& self,
                                                     const power_of_two_fold& ranks) noexcept {
        if (!ranks.paired(self.rank())) return {};
        const bool receives = self.rank() == stands_for(ranks.leaf_of(self.rank()), self.root(), ranks);
        return {.sends = !receives, .receives = receives, .first = true, .peer = self.rank() ^ 1};
    }

    /// The rank that represents a leaf once its pair is folded: the root, if it is in this leaf, or else the higher
    /// rank.
    [[nodiscard]] static constexpr int stands_for(int leaf, int root, const power_of_two_fold& ranks) noexcept {
        return ranks.leaf_of(root) == leaf ? root : ranks.last_of(leaf);
    }
};

}  // namespace allfold
