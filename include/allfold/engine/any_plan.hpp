// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/schedule/any_schedule.hpp"
#include "allfold/schedule/step.hpp"

/// @file
/// What the engine runs: any schedule of one collective, so that it is compiled once for all of them.

namespace allfold::detail {

/// Models `schedule`; which schedule it is, and what that one promises, is known at run time.
template <collective Goal>
class any_plan : public any_schedule {
  public:
    static constexpr collective goal = Goal;
    static constexpr order keeps = order::any;  // the launcher has looked at the schedule's own
    static constexpr int scratch_slots = 2;
    static constexpr bool in_place = false;  // see stays_right_in_place
    static constexpr bool slice_owner = Goal == collective::all_reduce || Goal == collective::reduce;

    template <schedule S>
        requires(S::goal == Goal)
    any_plan(const S& s, int root, int group)
        : any_schedule(any_schedule::of(s, root, group)), in_place_(S::in_place), slices_(slice_owner_schedule<S>) {
        static_assert(slice_owner || !slice_owner_schedule<S>, "allfold: say in any_plan that this collective has one");
    }
    [[nodiscard]] bool stays_right_in_place() const noexcept { return in_place_; }
    [[nodiscard]] bool owns_slices() const noexcept { return slices_; }

  private:
    bool in_place_;
    bool slices_;
};

}  // namespace allfold::detail
