// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include "allfold/schedule/contract.hpp"
#include "allfold/schedule/step.hpp"

/// @file
/// What is to be proved about a schedule: what its collective promises, and what it says about itself.

namespace allfold {

/// What a schedule is proved against: the contract of its collective, and what it says about itself.
struct claim {
    const contract* promise;
    order keeps;
    int scratch_slots = 0;
    bool in_place = false;
    bool equal_blocks = false;
    int root = 0;
    int group = 1;
    const int* destinations = nullptr;  ///< of a permutation: see `setting`

    /// The setting of rank `rank` of `size`.
    [[nodiscard]] constexpr setting at(int rank, int size) const noexcept {
        return {rank, size, root, group, destinations};
    }
    /// What the schedule `S` claims when it performs the collective with that contract.
    template <schedule S>
    [[nodiscard]] static constexpr claim of(const contract& promise, int root = 0, int group = 1) noexcept {
        return {&promise, S::keeps, S::scratch_slots, S::in_place, needs_equal_blocks<S>, root, group};
    }
};

/// The schedule that an algorithm has for a collective.
template <class Collective, class Algorithm>
using schedule_in = typename Collective::template schedule_in<Algorithm>;

/// What an algorithm's schedule for a collective claims.
template <class Collective, class Algorithm>
[[nodiscard]] constexpr claim claim_of(const Collective&, const Algorithm&, int root = 0, int group = 1) noexcept {
    return claim::of<schedule_in<Collective, Algorithm>>(Collective::promise, root, group);
}

}  // namespace allfold
