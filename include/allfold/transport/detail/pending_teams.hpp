// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "allfold/error.hpp"
#include "allfold/transport/detail/cause.hpp"
#include "allfold/transport/rank_list.hpp"

/// @file
/// Where the ranks of a new team of threads meet, without waiting for each other.

namespace allfold::detail {

/// The teams of a world that some members have not joined yet.
template <class World>
class pending_teams {
  public:
    /// Returns the world of the team with these members, which the first of them to arrive creates. `number`: how many
    /// teams the rank has formed or declined, counting this one, which all ranks count alike. `is_all`: the team has no
    /// other members elsewhere. `has_left(rank)`: whether a rank will never join; `has_failed()`: whether none will.
    template <class Make, class HasLeft, class HasFailed>
    [[nodiscard]] std::shared_ptr<World> join(std::uint64_t number, const rank_list& members, int rank, bool is_all,
                                              Make make, HasLeft has_left, HasFailed has_failed) {
        const std::lock_guard lock(mutex_);
        pending_team& team = find_or_make(number, members, rank, make);
        note(rank, number);  // without memory it has not come this far, and is missed until it leaves
        team.has_joined[static_cast<std::size_t>(members.find(rank))] = true;
        std::shared_ptr<World> world = team.world;
        for (int i = 0; i < members.size(); ++i)
            if (team.lacks(i) && (has_failed() || has_left(members[i])))
                fail_member(team, i, has_failed() ? failed : left);
        for (int i = 0; is_all && i < members.size(); ++i)
            if (team.lacks(i) && has_passed(members[i], number)) refuse(team, i, rank);
        if (--team.missing == 0) teams_.erase(teams_.begin() + (&team - teams_.data()));
        return world;
    }
    /// Called when a rank comes to a team that it is not in. Throws if others list it as a member.
    void decline(std::uint64_t number, int rank) {
        const std::lock_guard lock(mutex_);
        note(rank, number);
        for (pending_team& team : teams_)
            if (const int i = team.members.find(rank); team.number == number && i >= 0)
                refuse(team, i, team.first_joined());
    }
    /// Called when a rank will not join any more teams.
    void leave(int rank) noexcept {
        const std::lock_guard lock(mutex_);
        for (pending_team& team : teams_)
            if (const int i = team.members.find(rank); i >= 0 && team.lacks(i)) fail_member(team, i, left);
    }
    /// Called when no rank will join any more teams, since the world has failed.
    void leave_all() noexcept {
        const std::lock_guard lock(mutex_);
        for (pending_team& team : teams_)
            for (int i = 0; i < team.members.size(); ++i)
                if (team.lacks(i)) fail_member(team, i, failed);
    }

  private:
    struct pending_team {
        std::uint64_t number;
        rank_list members;
        std::vector<bool> has_joined;
        int missing;
        std::shared_ptr<World> world;

        [[nodiscard]] bool lacks(int i) const { return !has_joined[static_cast<std::size_t>(i)]; }
        [[nodiscard]] int first_joined() const {
            return members[static_cast<int>(std::ranges::find(has_joined, true) - has_joined.begin())];
        }
    };

    void note(int rank, std::uint64_t number) {
        const auto index = static_cast<std::size_t>(rank);
        if (latest_.size() <= index) latest_.resize(index + 1);
        latest_[index] = number;
    }
    [[nodiscard]] bool has_passed(int rank, std::uint64_t number) const {
        const auto index = static_cast<std::size_t>(rank);
        return index < latest_.size() && latest_[index] >= number;
    }
    /// Member number `i` has a list of its own that does not include it; that of `rank` does.
    [[noreturn]] void refuse(pending_team& team, int i, int rank) {
        const std::string why =
            text({"subset: rank ", rank, " passes a list of ", team.members.size(), " ranks that includes rank ",
                  team.members[i], ", but rank ", team.members[i], " passes one that does not"});
        team.world->fail(i, errc::mismatch, why);
        throw error(errc::mismatch, why);
    }

    template <class Make>
    pending_team& find_or_make(std::uint64_t number, const rank_list& members, int rank, Make make) {
        for (pending_team& each : teams_)
            if (each.number == number && each.members.overlaps(members)) {
                if (each.members == members) return each;
                const std::string why = text({"subset: rank ", rank, " forms a team of ", members.size(),
                                              " ranks, but rank ", each.first_joined(), " one of ", each.members.size(),
                                              " ranks: all members must pass the same ranks in the same order"});
                note(rank, number);
                // If that team lists this rank, its members would wait for it.
                if (const int i = each.members.find(rank); i >= 0) each.world->fail(i, errc::mismatch, why);
                throw error(errc::mismatch, why);
            }
        const auto count = static_cast<std::size_t>(members.size());
        teams_.push_back({number, members, std::vector<bool>(count), members.size(), make()});
        return teams_.back();
    }
    static constexpr const char* left = " of the parent) left before joining the team";
    static constexpr const char* failed = " of the parent) had not joined the team when the parent failed";
    static void fail_member(pending_team& team, int member, const char* why) noexcept {
        team.world->fail(member, errc::peer_failed, text_if_possible({"it (rank ", team.members[member], why}));
    }

    std::mutex mutex_;
    std::vector<pending_team> teams_;
    std::vector<std::uint64_t> latest_;  // by rank: the number of the latest team that it has come to
};

}  // namespace allfold::detail
