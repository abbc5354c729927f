// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "allfold/collective/all_gather.hpp"
#include "allfold/collective/barrier.hpp"
#include "allfold/engine/agreement.hpp"
#include "allfold/error.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/rank_list.hpp"
#include "allfold/transport/team.hpp"

/// @file
/// Makes teams: communicators of some ranks of another one.

namespace allfold {
namespace detail {

template <class Comm>
constexpr bool forms_teams_or_says_so() {
    static_assert(
        forming_teams<Comm>,
        "allfold: this communicator forms no teams: make them of what it stands for, threads, MPI processes or a "
        "hierarchy");
    return true;
}

}  // namespace detail

/// Makes a team of the ranks `members`, rank i of which is `members[i]`. All ranks of `comm` call it, in the order of
/// their other calls on it; each rank that is in the team gives the same list, the others any that they are not in.
///
/// - Afterwards a member has its end of the team, other ranks have none: `if (team) all_reduce(*team, ...)`.
/// - Cost: no message, and nobody waits. Over MPI but for the first team of a communicator, and for one in each 127 at
///   least, of Open MPI 2047: a barrier and MPI_Comm_dup, or MPI_Comm_create_group where it is a team itself. A strided
///   list takes O(1) memory. Two processes over Open MPI 4.1: a team, one all_reduce on it and its end take 1.3 us;
///   with a communicator of MPI's for each team they took 11 (MPICH 4.0: 1.6 and 9), four processes on two
///   processors 16000.
/// - Over MPI all teams of a communicator share one of MPI's, each under tags of its own, so `native_handle()` is no
///   communicator of their ranks only, and nothing is delegated to MPI. Who leaves a team waits for no other rank.
/// - A team of a hierarchy is a `team<relayed_communicator>`: any threads of any processes.
/// - Errors: `bad_rank` for a rank outside [0, P) and for one that stands in it twice, before anything is done;
///   `mismatch` where members give different lists, or one of them a list that it is not in. A member that leaves, or
///   fails, before it has joined releases the others with `peer_failed`; over MPI as soon as it waits for anything in
///   allfold.
template <communicator Comm>
[[nodiscard]] auto subset(Comm& comm, const rank_list& members) {
    static_assert(detail::forms_teams_or_says_so<Comm>());
    members.check(comm.size());
    if (comm.waits_to_form()) {
        barrier(comm);
        detail::meet_undisturbed(comm, "subset");
    }
    return comm.form_team(members);
}

/// Which team of a `split` a rank goes to: any number, or `no_color` for none.
struct color {
    int value;
    friend bool operator==(const color&, const color&) = default;
};
/// Of a rank that is to be in no team.
inline constexpr color no_color{-1};

/// Makes a team of each color that ranks of `comm` give, of the ranks that give it, by rising key, and by rank where
/// keys are equal. All ranks of `comm` call it.
///
/// - Afterwards each rank has its end of the team of its color; who gives `no_color` has none.
/// - Cost: an all_gather of 8 bytes a rank, and what `subset` costs.
/// - Errors: `bad_argument` on all ranks where one gives a negative color that is not `no_color`.
/// - Source: MPI-4.1, section 7.4.2, MPI_Comm_split.
template <communicator Comm>
[[nodiscard]] auto split(Comm& comm, color mine, int key = 0) {
    static_assert(detail::forms_teams_or_says_so<Comm>());
    const std::array<int, 2> own{mine.value, key};
    std::vector<int> all(2 * static_cast<std::size_t>(comm.size()));
    all_gather(comm, own, all);
    std::vector<std::pair<int, int>> alike;  // key and rank
    for (int r = 0; r < comm.size(); ++r) {
        const auto at = 2 * static_cast<std::size_t>(r);
        if (const color theirs{all[at]}; theirs.value < 0 && theirs != no_color)
            throw error(errc::bad_argument,
                        detail::text({"split: rank ", r, " gives color ", theirs.value, ", which is negative"}));
        if (all[at] == mine.value && mine != no_color) alike.emplace_back(all[at + 1], r);
    }
    std::ranges::sort(alike);
    std::vector<int> members;
    members.reserve(alike.size());
    for (const auto& [of, rank] : alike) members.push_back(rank);
    if (comm.waits_to_form()) detail::meet_undisturbed(comm, "split");
    return comm.form_team(rank_list(std::move(members)));
}

}  // namespace allfold
