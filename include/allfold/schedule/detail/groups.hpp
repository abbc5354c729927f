// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/schedule/block_set.hpp"
#include "allfold/schedule/compose.hpp"
#include "allfold/schedule/schedule_of.hpp"
#include "allfold/schedule/step.hpp"

/// @file
/// Steps within groups of ranks and between their leaders, from which two-level schedules are built.

namespace allfold::detail {

/// The other ranks of a rank's group; for its leader, the members.
template <class Algorithm>
[[nodiscard]] constexpr peers others_of_group(const schedule_of<Algorithm>& self) noexcept {
    return peers::range(self.leader(), self.leader() + self.group());
}

/// Folds the operands of the group at its rank `at`.
template <class Algorithm>
[[nodiscard]] constexpr step fold_group(const schedule_of<Algorithm>& self, int at, const block_set& blocks,
                                        slot into) noexcept {
    if (self.rank() != at) return {.to = peers::one(at), .send = blocks};
    return {.from = others_of_group(self), .receive = blocks, .how = fold::in_rank_order, .into = into};
}

/// Sends what the leader has in `source` to all members, which store it as their result.
template <class Algorithm>
[[nodiscard]] constexpr step hand_out(const schedule_of<Algorithm>& self, const block_set& blocks,
                                      slot source) noexcept {
    if (!self.is_leader()) return {.from = peers::one(self.leader()), .receive = blocks};
    return {.to = others_of_group(self), .send = blocks, .source = source};
}

/// Sends what the leader of the root has in `source` to the root, which is not a leader itself.
template <class Algorithm>
[[nodiscard]] constexpr step give_to_root(const schedule_of<Algorithm>& self, const block_set& blocks,
                                          slot source) noexcept {
    if (self.is_root()) return {.from = peers::one(self.leader()), .receive = blocks};
    if (!self.is_leader() || self.own_group() != self.root_group()) return {};
    return {.to = peers::one(self.root()), .send = blocks, .source = source};
}

[[nodiscard]] constexpr slot as_they_are(slot s) noexcept { return s; }
[[nodiscard]] constexpr slot all_in_result(slot) noexcept { return slot::result; }
[[nodiscard]] constexpr slot all_in_scratch(slot) noexcept { return slot::scratch_a; }

/// A round of a schedule among the groups, as the leaders run it: a group is represented by its leader, and a group's
/// block stands for the blocks of all its ranks.
template <schedule Among>
[[nodiscard]] constexpr step among_leaders(const Among& groups, int round, int group, slot (*replaced)(slot)) noexcept {
    step s = with_slots(groups[round], replaced);
    if (s.to.which() == peers::kind::one) s.to = peers::one(s.to.at(0, groups.rank()) * group);
    if (s.from.which() == peers::kind::one) s.from = peers::one(s.from.at(0, groups.rank()) * group);
    if (groups.blocks() > 1) {
        s.send = s.send.times(group);
        s.receive = s.receive.times(group);
        s.local.blocks = s.local.blocks.times(group);
    }
    return s;
}

/// The windows of groups in a scan: they end with the rank's own group, and double with each round: 1, 2, 4, ...
/// groups.
struct doubling_window {
    int own;  ///< this rank's group
    int groups;
    int round;

    [[nodiscard]] constexpr int distance() const noexcept { return 1 << round; }
    [[nodiscard]] constexpr bool sends() const noexcept { return own + distance() < groups; }
    [[nodiscard]] constexpr bool receives() const noexcept { return own >= distance(); }
    /// Whether the window has grown in the previous round.
    [[nodiscard]] constexpr bool has_grown() const noexcept { return round > 0 && own >= distance() / 2; }

    /// The messages of this round, from leader to leader.
    [[nodiscard]] constexpr step links(int group) const noexcept {
        step s;
        if (sends()) {
            s.to = peers::one((own + distance()) * group);
            s.send = block_set::one(0);
        }
        if (receives()) {
            s.from = peers::one((own - distance()) * group);
            s.receive = block_set::one(0);
        }
        return s;
    }
};

}  // namespace allfold::detail
