// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include "allfold/schedule/schedule_of.hpp"
#include "allfold/schedule/step.hpp"

/// @file
/// Pairwise: in round k every rank sends to the rank k + 1 above it and receives from the rank k + 1 below it.
///
///     P = 4     round 0      round 1      round 2
///     rank 0    ──► 1 ◄── 3  ──► 2 ◄── 2  ──► 3 ◄── 1
///          1    ──► 2 ◄── 0  ──► 3 ◄── 3  ──► 0 ◄── 2
///          2    ──► 3 ◄── 1  ──► 0 ◄── 0  ──► 1 ◄── 3
///          3    ──► 0 ◄── 2  ──► 1 ◄── 1  ──► 2 ◄── 0
///
/// P - 1 rounds of one message each; a rank sends (P - 1)/P of its operand, the least possible, to one rank at a time,
/// so no rank is flooded whatever P is. For long messages.
///
/// Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH", 2005,
/// section 4.4.

namespace allfold {

/// The least volume, one partner at a time.
struct pairwise {
    static constexpr const char* name = "pairwise";

    class all_to_all : public schedule_of<pairwise> {
      public:
        static constexpr order keeps = order::tree;
        static constexpr bool in_place = false;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return size(); }
        [[nodiscard]] constexpr int rounds() const noexcept { return size() - 1; }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            const int above = (rank() + round + 1) % size(), below = (rank() + size() - round - 1) % size();
            step s{.to = peers::one(above),
                   .send = block_set::one(above),
                   .from = peers::one(below),
                   .receive = block_set::one(below)};
            if (round == 0) s.local = keep_input(block_set::one(rank()));
            return s;
        }
    };
};

}  // namespace allfold
