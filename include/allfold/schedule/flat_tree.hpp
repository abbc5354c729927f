// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include "allfold/schedule/schedule_of.hpp"
#include "allfold/schedule/step.hpp"

/// @file
/// Flat tree: rank 0 gets every rank's operand, folds them in rank order, and sends everyone the result.
///
///     P = 4     round 0                            round 1
///     rank 0    ◄── 1, 2, 3    ((01)(23))          ──► 1, 2, 3
///          1    ──► 0                              ◄── 0
///          2    ──► 0                              ◄── 0
///          3    ──► 0                              ◄── 0
///
/// With m bytes: 2 rounds and 2·(P - 1) messages; rank 0 sends and folds (P - 1)·m, every other rank sends m and waits
/// for rank 0 only. This wins if ranks share cores: each of them has to run just once per call, and the remaining cost
/// is the number of messages. Folds are bracketed as the canonical tree.
///
/// Source: the flat tree (or linear) algorithms of J. Pješivac-Grbović et al., "Performance Analysis of MPI Collective
/// Operations", 2007, section 3.

namespace allfold {

/// The fewest messages: for ranks that share cores.
struct flat_tree {
    static constexpr const char* name = "flat tree";

    class barrier : public schedule_of<flat_tree> {
      public:
        static constexpr order keeps = order::tree;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return 0; }
        [[nodiscard]] constexpr int rounds() const noexcept { return two_rounds(size()); }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            const peers others = rank() == 0 ? peers::everyone() : peers::one(0);
            const bool sends = (rank() == 0) == (round == 1);
            return sends ? step{.to = others} : step{.from = others};
        }
    };

    class all_reduce : public schedule_of<flat_tree> {
      public:
        static constexpr order keeps = order::tree;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return 1; }
        [[nodiscard]] constexpr int rounds() const noexcept { return two_rounds(size()); }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            const block_set all = block_set::one(0);
            if (rank() == 0)
                return round == 0 ? step{.from = peers::everyone(), .receive = all, .how = fold::in_rank_order}
                                  : step{.to = peers::everyone(), .send = all, .source = slot::result};
            return round == 0 ? step{.to = peers::one(0), .send = all} : step{.from = peers::one(0), .receive = all};
        }
    };

  private:
    [[nodiscard]] static constexpr int two_rounds(int size) noexcept { return size > 1 ? 2 : 0; }
};

}  // namespace allfold
