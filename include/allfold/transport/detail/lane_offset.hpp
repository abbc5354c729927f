// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/flow_control.hpp"

/// @file
/// Which lane of one transport goes with a lane of another one, if both open lanes for the same operations.

namespace allfold::detail {

/// The offset changes where one of the transports skips lanes that are not counted. Operations that are in flight then
/// keep the one before.
class lane_offset {
  public:
    /// Notes the first lane that an operation has opened on either transport.
    void note(lane here, lane there) noexcept {
        constexpr lane many = 0x40000000;  // more lanes than operations in flight have
        const lane offset = there - here;
        if (!is_known_) {
            is_known_ = true;
            of_restarts_ = before_ = now_ = offset;
        }
        if (offset != now_) {
            before_ = now_;
            now_ = offset;
            since_ = here;
        } else if (here - since_ >= many) {
            before_ = now_;
            since_ = here;
        }
    }
    /// The lane over there. Operations that start again keep theirs for good.
    [[nodiscard]] lane operator()(lane on) const noexcept {
        if (is_restart_lane(on)) return first_restart_lane + (on - first_restart_lane + of_restarts_) % restart_lanes;
        return on + (is_later(since_, on) ? before_ : now_);
    }

  private:
    lane before_ = 0, now_ = 0, since_ = 0;
    lane of_restarts_ = 0;
    bool is_known_ = false;
};

}  // namespace allfold::detail
