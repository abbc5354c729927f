// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "allfold/error.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/rank_list.hpp"

/// @file
/// Where the ranks of a new team of threads meet, without waiting for each other.

namespace allfold::detail {

/// The teams of a world of which a member has not come yet.
template <class World>
class teams_in_making {
  public:
    /// The world of the team with these members, made by the first one that comes. `at`: the lane that all of them have
    /// opened for it. `has_left(rank)`: whether a rank will never come.
    template <class Make, class HasLeft>
    [[nodiscard]] std::shared_ptr<World> join(lane at, const rank_list& members, int rank, Make make,
                                              HasLeft has_left) {
        const std::lock_guard lock(mutex_);
        team_in_making& team = find_or_make(at, members, rank, make);
        team.has_come[static_cast<std::size_t>(members.find(rank))] = true;
        std::shared_ptr<World> world = team.world;
        for (int i = 0; i < members.size(); ++i)
            if (team.lacks(i) && has_left(members[i])) give_up(team, i);
        if (--team.missing == 0) teams_.erase(teams_.begin() + (&team - teams_.data()));
        return world;
    }
    /// A rank will join no more.
    void leave(int rank) noexcept {
        const std::lock_guard lock(mutex_);
        for (team_in_making& team : teams_)
            if (const int i = team.members.find(rank); i >= 0 && team.lacks(i)) give_up(team, i);
    }

  private:
    struct team_in_making {
        lane at;
        rank_list members;
        std::vector<bool> has_come;
        int missing;
        std::shared_ptr<World> world;

        [[nodiscard]] bool lacks(int i) const { return !has_come[static_cast<std::size_t>(i)]; }
    };

    template <class Make>
    team_in_making& find_or_make(lane at, const rank_list& members, int rank, Make make) {
        for (team_in_making& each : teams_)
            if (each.at == at && each.members.overlaps(members)) {
                if (each.members == members) return each;
                throw error(errc::mismatch,
                            text({"subset: rank ", rank, " forms a team of ", members.size(),
                                  " ranks, another rank one of ", each.members.size(),
                                  " ranks: all that are in a team must give the same ones in the same order"}));
            }
        const auto count = static_cast<std::size_t>(members.size());
        teams_.push_back({at, members, std::vector<bool>(count), members.size(), make()});
        return teams_.back();
    }
    static void give_up(team_in_making& team, int member) noexcept {
        team.world->fail(member, errc::peer_failed,
                         text({"as rank ", team.members[member], " of the parent it left before it joined the team"}));
    }

    std::mutex mutex_;
    std::vector<team_in_making> teams_;
};

}  // namespace allfold::detail
