// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include "allfold/schedule/binomial.hpp"
#include "allfold/schedule/circulant.hpp"
#include "allfold/schedule/compose.hpp"
#include "allfold/schedule/schedule_of.hpp"

/// @file
/// Scatter and all-gather: the root cuts its operand into one block per rank, and then every rank gets all blocks.
///
///     P = 6, root 0   the tree of a scatter                  the circulant graph of an all_gather
///                     round 0      round 1     round 2       round 3      round 4      round 5
///     rank 0          ──► 4: 45    ──► 2: 23   ──► 1: 1      ──► 5: 0     ──► 4: 0     ──► 3: 012
///          1                                   ◄── 0                      ──► 5: 1     ──► 4: 123
///          2                       ◄── 0       ──► 3: 3      ──► 1: 2                  ──► 5: 234
///          3                                   ◄── 2         ──► 2: 3     ──► 1: 3
///          4          ◄── 0                    ──► 5: 5      ──► 3: 4     ──► 2: 4     ──► 1: 450
///          5                                   ◄── 4         ──► 4: 5     ──► 3: 5     ──► 2: 501
///
/// With m bytes: 2·⌈log2 P⌉ rounds; the root sends (P - 1)/P·m in each half of them, and every other rank at most 1.5·m
/// altogether. The root of a binomial tree sends ⌈log2 P⌉·m in half the rounds, so this is for long operands on
/// machines where each rank has its own link. All ranks together send somewhat more than in the tree.
///
/// Source: M. Barnett et al., "Interprocessor Collective Communication Library (InterCom)", 1994; the name is that of
/// R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH", 2005.
/// Departures: the all_gather is that of `circulant`, so the number of rounds is logarithmic at every P, and nothing is
/// sent to the root, which has all blocks.

namespace allfold {

/// For long operands over many links: the root sends about twice its operand, whatever the number of ranks.
struct scatter_all_gather {
    static constexpr const char* name = "scatter and all-gather";

    class broadcast : public schedule_of<scatter_all_gather> {
      public:
        static constexpr order keeps = order::tree;
        static constexpr bool one_pass = true;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return size(); }
        [[nodiscard]] constexpr int rounds() const noexcept { return 2 * detail::ceil_log2(size()); }
        [[nodiscard]] constexpr step operator[](int round) const noexcept {
            const int before = rounds() / 2;
            step s = round < before ? in_scatter(round) : in_all_gather(round - before);
            if (is_root() && round == 0) s.local = keep_input(block_set::all(size()));
            return s;
        }

      private:
        [[nodiscard]] constexpr step in_scatter(int round) const noexcept {
            return detail::with_slots(binomial::scatter(where())[round], detail::partials_in_result);
        }
        [[nodiscard]] constexpr step in_all_gather(int round) const noexcept {
            step s = detail::with_slots(circulant::all_gather(where())[round], detail::input_is_result);
            if (s.to == peers::one(root())) s.to = {};
            if (is_root()) s.from = {};
            return s;
        }
    };
};

}  // namespace allfold
