// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <utility>
#include <vector>

#include "allfold/collective/all_gather.hpp"
#include "allfold/collective/barrier.hpp"
#include "allfold/engine/agreement.hpp"
#include "allfold/engine/task.hpp"
#include "allfold/error.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/rank_list.hpp"
#include "allfold/transport/team.hpp"

/// @file
/// Makes teams: communicators of some of the ranks of another communicator.

namespace allfold {
namespace detail {

template <class Comm>
[[nodiscard]] consteval bool require_team_forming() {
    static_assert(
        team_forming_communicator<Comm>,
        "allfold: this communicator cannot form teams: form them from a communicator of threads, MPI processes or a "
        "hierarchy");
    return team_forming_communicator<Comm>;
}

}  // namespace detail

/// Makes a team of the ranks `members`, in which rank i is `members[i]`. All ranks of `comm` call it, in the
/// same order relative to their other calls on it. Every rank in the team passes the same list; other ranks pass any
/// list that they are not in.
///
/// - Afterwards a member has its end of the team, and other ranks have none: `if (team) all_reduce(*team, ...)`.
/// - Cost: no messages and no waiting. The exceptions, over MPI, are the first team of a communicator and thereafter at
///   most one team in 127 (2047 with Open MPI): these cost a barrier and MPI_Comm_dup, or MPI_Comm_create_group if the
///   communicator is itself a team. A strided list takes O(1) memory. With two processes over Open MPI 4.1, making a
///   team, one all_reduce on it and its end take 1.3 us; with an MPI communicator per team they took 11 us (MPICH 4.0:
///   1.6 and 9 us), and 16000 us with four processes on two cores.
/// - Over MPI all teams of a communicator share one MPI communicator, each with its own tags. `native_handle()` is
///   therefore not a communicator of just their ranks, and nothing is delegated to MPI. A rank leaves a team without
///   waiting for any other rank.
/// - A team of a hierarchy is a `team<relayed_communicator>`: any threads of any processes.
/// - Errors: `bad_rank` for a rank outside [0, P) or listed twice, before anything is done; `mismatch` if members pass
///   different lists, or a member passes a list that it is not in;
///   `bad_argument` inside an operator of a collective on `comm`. A member that leaves, or fails, before it has joined
///   releases the others with `peer_failed`; over MPI as soon as it waits for anything in allfold.
template <communicator Comm>
[[nodiscard]] auto subset(Comm& comm, const rank_list& members) {
    if constexpr (detail::require_team_forming<Comm>()) {
        members.check(comm.size());
        detail::require_outside_operator(comm, "subset");
        if (comm.waits_to_form()) {
            barrier(comm);
            detail::undisturbed_barrier(comm, "subset");
        }
        return detail::abort_unless_error(comm, [&] { return comm.form_team(members); });
    } else {
        return team<Comm>();
    }
}

/// The team of a `split` that a rank joins: any non-negative number, or `no_color` for none.
struct color {
    int value;
    friend bool operator==(const color&, const color&) = default;
};
/// The color of a rank that joins no team.
inline constexpr color no_color{-1};

namespace detail {

/// The ranks of the team that this rank joins, in its order. All ranks of `comm` call it.
template <communicator Comm>
[[nodiscard]] rank_list ranks_of_color(Comm& comm, color mine, int key) {
    const std::array<int, 2> own{mine.value, key};
    std::vector<int> all(2 * static_cast<std::size_t>(comm.size()));
    all_gather(comm, own, all);
    std::vector<std::pair<int, int>> alike;  // key and rank
    for (int r = 0; r < comm.size(); ++r) {
        const auto at = 2 * static_cast<std::size_t>(r);
        if (const color theirs{all[at]}; theirs.value < 0 && theirs != no_color)
            throw error(errc::bad_argument, text({"split: rank ", r, " passes negative color ", theirs.value}));
        if (all[at] == mine.value && mine != no_color) alike.emplace_back(all[at + 1], r);
    }
    std::ranges::sort(alike);
    std::vector<int> members;
    members.reserve(alike.size());
    for (const auto& [of, rank] : alike) members.push_back(rank);
    return members;
}

}  // namespace detail

/// Makes one team for each color passed by ranks of `comm`, consisting of the ranks that pass it, ordered by key, and
/// by rank if keys are equal. All ranks of `comm` call it.
///
/// - Afterwards each rank has its end of the team of its color; a rank that passes `no_color` has none.
/// - Cost: an all_gather of 8 bytes per rank, plus the cost of `subset`.
/// - Errors: `bad_argument` on all ranks if one passes a negative color other than `no_color`.
/// - Source: MPI-4.1, section 7.4.2, MPI_Comm_split.
template <communicator Comm>
[[nodiscard]] auto split(Comm& comm, color mine, int key = 0) {
    if constexpr (detail::require_team_forming<Comm>()) {
        detail::require_outside_operator(comm, "split");
        return detail::abort_unless_error(comm, [&] {
            const rank_list members = detail::ranks_of_color(comm, mine, key);
            if (comm.waits_to_form()) detail::undisturbed_barrier(comm, "split");
            return comm.form_team(members);
        });
    } else {
        return team<Comm>();
    }
}
/// Rejects a number that might be the color or the key.
template <communicator Comm, std::integral Number>
[[nodiscard]] team<Comm> split(Comm&, Number, int = 0) {
    static_assert(!std::integral<Number>,
                  "allfold: mark the color of split as such: split(comm, color{1}, key), or no_color for a rank that "
                  "joins no team");
    return {};
}

}  // namespace allfold
