// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/envelope.hpp"
#include "allfold/transport/rank_list.hpp"

/// @file
/// Which lanes the ranks have opened in an execution, and the members of teams.

namespace allfold::detail {

/// The lanes that one rank has opened on one communicator; others may look them up until the execution ends.
struct lane_record {
    std::uint64_t group = 0;
    int rank = 0;
    opened_lanes opened;
};

class explored_lanes {
  public:
    void begin() noexcept { used_ = 0; }
    /// The members of a team, which stay where they are for good: a group is never that of another team.
    [[nodiscard]] const rank_list* team_of(std::uint64_t group, const rank_list& members) {
        return &teams_.try_emplace(group, members).first->second;
    }
    [[nodiscard]] lane_record& add(std::uint64_t group, int rank) {
        if (used_ == records_.size()) records_.push_back(std::make_unique<lane_record>());
        lane_record& own = *records_[used_++];
        own = {group, rank, {}};
        return own;
    }
    [[nodiscard]] const opened_lanes::entry* find(std::uint64_t group, int rank, lane on) const {
        for (std::size_t i = 0; i < used_; ++i)
            if (const lane_record& each = *records_[i]; each.group == group && each.rank == rank)
                if (const auto* const found = each.opened.find(on)) return found;
        return nullptr;
    }

  private:
    std::vector<std::unique_ptr<lane_record>> records_;
    std::size_t used_ = 0;
    std::map<std::uint64_t, rank_list> teams_;
};

}  // namespace allfold::detail
