// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include "allfold/schedule/schedule_of.hpp"
#include "allfold/schedule/step.hpp"

/// @file
/// Everyone reads everyone: in a single round each rank gets the whole operands of all ranks it needs, and folds them
/// itself in rank order.
///
///     P = 4     round 0
///     rank 0    ◄── 1, 2, 3    ((01)(23))
///          1    ◄── 0, 2, 3    ((01)(23))
///          2    ◄── 0, 1, 3    ((01)(23))
///          3    ◄── 0, 1, 2    ((01)(23))
///
/// With m bytes: 1 round; a rank sends and folds up to (P - 1)·m. This is the best choice for a few bytes on a few
/// ranks, where one synchronisation costs more than all the data: in shared memory every rank reads P short lines. All
/// folds are bracketed as the canonical tree of their operands, including each rank's prefix in a scan.
///
/// Source: the small-message kernels of NCCL's symmetric memory (AGxLL_R: gather, then fold locally), 2025; here every
/// rank uses the same bracketing.

namespace allfold {

/// A single round for every P: for small messages.
struct all_read {
    static constexpr const char* name = "all-read";

    class barrier : public schedule_of<all_read> {
      public:
        static constexpr order keeps = order::tree;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return 0; }
        [[nodiscard]] constexpr int rounds() const noexcept { return one_round(size()); }
        [[nodiscard]] constexpr step operator[](int) const noexcept {
            return {.to = peers::everyone(), .from = peers::everyone()};
        }
    };

    class all_reduce : public schedule_of<all_read> {
      public:
        static constexpr order keeps = order::tree;
        static constexpr bool in_place = false;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return 1; }
        [[nodiscard]] constexpr int rounds() const noexcept { return one_round(size()); }
        [[nodiscard]] constexpr step operator[](int) const noexcept {
            return whole_vector(peers::everyone(), peers::everyone(), fold::in_rank_order);
        }
    };

    class reduce : public schedule_of<all_read> {
      public:
        static constexpr order keeps = order::tree;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return 1; }
        [[nodiscard]] constexpr int rounds() const noexcept { return one_round(size()); }
        [[nodiscard]] constexpr step operator[](int) const noexcept {
            return is_root() ? whole_vector({}, peers::everyone(), fold::in_rank_order)
                             : whole_vector(peers::one(root()), {}, fold::store);
        }
    };

    class inclusive_scan : public schedule_of<all_read> {
      public:
        static constexpr order keeps = order::tree;
        static constexpr bool in_place = false;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return 1; }
        [[nodiscard]] constexpr int rounds() const noexcept { return one_round(size()); }
        [[nodiscard]] constexpr step operator[](int) const noexcept {
            if (rank() > 0) return whole_vector(peers::higher(), peers::lower(), fold::in_rank_order);
            step s = whole_vector(peers::higher(), {}, fold::store);
            s.local = keep_input(block_set::one(0));
            return s;
        }
    };

    class exclusive_scan : public schedule_of<all_read> {
      public:
        static constexpr order keeps = order::tree;
        static constexpr bool in_place = false;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return 1; }
        [[nodiscard]] constexpr int rounds() const noexcept { return one_round(size()); }
        [[nodiscard]] constexpr step operator[](int) const noexcept {
            if (rank() > 0) return whole_vector(peers::higher(), peers::lower(), fold::peers_in_rank_order);
            step s = whole_vector(peers::higher(), {}, fold::store);
            s.local = set_identity(block_set::one(0));
            return s;
        }
    };

  private:
    [[nodiscard]] static constexpr int one_round(int size) noexcept { return size > 1 ? 1 : 0; }

    [[nodiscard]] static constexpr step whole_vector(peers to, peers from, fold how) noexcept {
        return {.to = to, .send = block_set::one(0), .from = from, .receive = block_set::one(0), .how = how};
    }
};

}  // namespace allfold
