// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include "allfold/schedule/schedule_of.hpp"
#include "allfold/schedule/step.hpp"

/// @file
/// Linear: the root gets each rank's block directly from that rank, or sends it directly to that rank.
///
///     P = 4, root 0     gather: round 0     scatter: round 0
///     rank 0            ◄── 1, 2, 3         ──► 1, 2, 3
///          1            ──► 0               ◄── 0
///          2            ──► 0               ◄── 0
///          3            ──► 0               ◄── 0
///
/// One round with P - 1 messages, all of them to or from the root, which receives or sends (P - 1)/P of the whole; no
/// block is sent twice, and no rank needs memory besides input and result. The least volume, and the fewest steps if
/// ranks share memory.
///
/// Source: the linear algorithms of J. Pješivac-Grbović et al., "Performance Analysis of MPI Collective Operations",
/// 2007, section 3.

namespace allfold {

/// The least volume to or from a root.
struct linear {
    static constexpr const char* name = "linear";

    class gather : public schedule_of<linear> {
      public:
        static constexpr order keeps = order::tree;
        static constexpr bool one_pass = true;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return size(); }
        [[nodiscard]] constexpr int rounds() const noexcept { return size() > 1 ? 1 : 0; }
        [[nodiscard]] constexpr step operator[](int) const noexcept {
            if (!is_root()) return {.to = peers::one(root()), .send = block_set::one(rank())};
            return {.local = keep_input(block_set::one(rank())),
                    .from = peers::everyone(),
                    .received = addressed::per_peer};
        }
    };

    class scatter : public schedule_of<linear> {
      public:
        static constexpr order keeps = order::tree;

        using schedule_of::schedule_of;
        [[nodiscard]] constexpr int blocks() const noexcept { return size(); }
        [[nodiscard]] constexpr int rounds() const noexcept { return size() > 1 ? 1 : 0; }
        [[nodiscard]] constexpr step operator[](int) const noexcept {
            if (!is_root()) return {.from = peers::one(root()), .receive = block_set::one(rank())};
            return {.local = keep_input(block_set::one(rank())), .to = peers::everyone(), .sent = addressed::per_peer};
        }
    };
};

}  // namespace allfold
