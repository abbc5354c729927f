// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>

#include "allfold/error.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/rank_list.hpp"

/// @file
/// A communicator of some of the ranks of another one.

namespace allfold {

/// How two teams of one parent compare, or a team with its parent.
enum class likeness : std::uint8_t {
    identical,  ///< one and the same
    congruent,  ///< distinct, with the same ranks in the same order
    similar,    ///< with the same ranks in another order
    unequal
};

/// This rank's end of a team: `*team` is a communicator of its own, whose rank i is rank `members()[i]` of the parent.
/// Its messages never mix with those of the parent or of other teams, and operations in flight on any of them make
/// progress while a rank waits for one. Null on a rank that is in no team.
///
///     const auto even = subset(comm, rank_list::strided(0, (comm.size() + 1) / 2, 2));
///     if (even) all_reduce(*even, x, sum());
///
/// Made by `subset` and `split`. It may outlive its parent. Over MPI, destroying a team that other teams were formed
/// from is collective over its members, as for any communicator; it frees what those teams share, unless one of them is
/// still alive on some rank: then that stays until the program ends.
template <class Comm>
class team {
  public:
    team() = default;
    team(rank_list members, std::shared_ptr<void> shared, std::unique_ptr<Comm> own)
        : members_(std::move(members)), shared_(std::move(shared)), own_(std::move(own)) {}
    team(team&&) = default;
    team& operator=(team&& other) noexcept {  // the old end is destroyed before what it shares
        team old(std::move(*this));
        members_ = std::move(other.members_);
        shared_ = std::move(other.shared_);
        own_ = std::move(other.own_);
        return *this;
    }
    ~team() = default;

    [[nodiscard]] explicit operator bool() const noexcept { return own_ != nullptr; }
    [[nodiscard]] Comm& operator*() const noexcept { return *own_; }
    [[nodiscard]] Comm* operator->() const noexcept { return own_.get(); }

    /// The parent's ranks that are in the team, in its order; none on a rank that is in no team.
    [[nodiscard]] const rank_list& members() const noexcept { return members_; }
    /// The rank that `rank` of this team has in another team of the same parent; -1 if it is not in that one.
    /// @throws error (bad_rank) if there is no such rank in this team
    [[nodiscard]] int translate(int rank, const team& other) const {
        if (rank < 0 || rank >= members_.size())
            throw error(errc::bad_rank,
                        detail::text({"translate: rank ", rank, " of a team of ", members_.size(), " ranks"}));
        return other.members_.find(members_[rank]);
    }
    /// Compares with another team of the same parent.
    [[nodiscard]] likeness compare(const team& other) const {
        if (own_ == other.own_) return likeness::identical;
        if (members_ == other.members_) return likeness::congruent;
        return members_.has_same_ranks(other.members_) ? likeness::similar : likeness::unequal;
    }
    /// Compares with the parent, which is another communicator: never identical.
    template <communicator Parent>
    [[nodiscard]] likeness compare(const Parent& parent) const {
        const rank_list all = rank_list::strided(0, parent.size());
        if (members_ == all) return likeness::congruent;
        return members_.has_same_ranks(all) ? likeness::similar : likeness::unequal;
    }

  private:
    rank_list members_;
    std::shared_ptr<void> shared_;  // what the ranks of the team share: outlives their ends
    std::unique_ptr<Comm> own_;
};

namespace detail {
template <class T>
inline constexpr bool is_team = false;
template <class Comm>
inline constexpr bool is_team<team<Comm>> = true;
}  // namespace detail

/// A transport that forms teams: all its ranks call `form_team(members)` alike, and those that are in the team with the
/// same list. A team may be another transport, which forms teams of its own kind. `waits_to_form()`: whether forming
/// one waits for other ranks in a way that does not end when one of them has failed, so that all ranks have to be there
/// beforehand.
template <class C>
concept team_forming_communicator = communicator<C> && requires(C& comm, const rank_list& members) {
    requires detail::is_team<decltype(comm.form_team(members))>;
    { comm.waits_to_form() } -> std::same_as<bool>;
};

}  // namespace allfold
