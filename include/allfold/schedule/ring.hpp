// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include "allfold/schedule/compose.hpp"
#include "allfold/schedule/schedule_of.hpp"

/// @file
/// The ring: every rank sends one block to its right neighbour in each round.
///
///     P = 4, reduce_scatter: what each rank sends to the next, and what the block holds by then
///
///     rank            0             1             2             3        (to 0)
///     round 0     block 3: 0    block 0: 1    block 1: 2    block 2: 3
///     round 1     block 2: 30   block 3: 01   block 0: 12   block 1: 23
///     round 2     block 1: 230  block 2: 301  block 3: 012  block 0: 123
///     then block r of rank r is complete; all_gather sends the blocks around the same way.
///
/// With blocks of b = m / P bytes: P - 1 rounds, in which every rank sends (P - 1)·b and folds (P - 1)·b; all_reduce
/// takes twice the rounds and the volume, which is the least possible. Only neighbours communicate, so no two messages
/// share a link of a ring. Each block is folded in the order r + 1, r + 2, ..., r, where r is its owner: a commutative
/// operator is needed.
///
/// Source: P. Patarasuk, X. Yuan, "Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations", 2009.

namespace allfold {

/// The least volume among neighbours only: for long vectors.
struct ring {
    static constexpr const char* name = "ring";

    class reduce_scatter : public schedule_of<ring> {
      public:
        static constexpr order keeps = order::any;
        static constexpr int scratch_slots = 1;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return size(); }
        [[nodiscard]] constexpr int rounds() const noexcept { return size() - 1; }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            step s = to_the_right(*this, rank() - 1 - round);
            s.source = round == 0 ? slot::input : slot::scratch_a;
            s.how = fold::left;
            s.into = round + 1 == rounds() ? slot::result : slot::scratch_a;
            return s;
        }
    };

    class all_gather : public schedule_of<ring> {
      public:
        static constexpr order keeps = order::any;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return size(); }
        [[nodiscard]] constexpr int rounds() const noexcept { return size() - 1; }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            step s = to_the_right(*this, rank() - round);
            s.source = slot::result;
            if (round == 0) s.local = keep_input(block_set::one(rank()));
            return s;
        }
    };

    using all_reduce = composed<reduce_scatter, all_gather>;

  private:
    /// Sends `block` to the right and receives the block before it from the left.
    [[nodiscard]] static constexpr step to_the_right(const schedule_of<ring>& self, int block) noexcept {
        const auto wrapped = [size = self.size()](int n) { return (n + 2 * size) % size; };
        return {.to = peers::one(wrapped(self.rank() + 1)),
                .send = block_set::one(wrapped(block)),
                .from = peers::one(wrapped(self.rank() - 1)),
                .receive = block_set::one(wrapped(block - 1))};
    }
};

}  // namespace allfold
