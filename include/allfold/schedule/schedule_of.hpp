// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include "allfold/schedule/contract.hpp"

/// @file
/// What all schedules have in common: the algorithm they belong to and where they run.

namespace allfold {

/// Base of the schedules of one algorithm: `struct ring { class all_gather : public schedule_of<ring> {...}; };`
///
/// A schedule of an algorithm with parameters has its own constructor, `(const setting&, const Algorithm&)`, and keeps
/// what it needs of the parameters. Whatever it keeps besides its setting must not depend on the rank: see `move_to`.
template <class Algorithm>
class schedule_of {
  public:
    using algorithm = Algorithm;

    // Defaults that suit most schedules; the others redefine them.
    static constexpr int scratch_slots = 0;
    static constexpr bool in_place = true;

    constexpr schedule_of(const setting& where) noexcept : where_(where) {}

    [[nodiscard]] constexpr const setting& where() const noexcept { return where_; }
    /// Turns this into the schedule of another rank.
    constexpr void move_to(int rank) noexcept { where_.rank = rank; }

    [[nodiscard]] constexpr int rank() const noexcept { return where_.rank; }
    [[nodiscard]] constexpr int size() const noexcept { return where_.size; }
    [[nodiscard]] constexpr int root() const noexcept { return where_.root; }
    [[nodiscard]] constexpr bool is_root() const noexcept { return where_.rank == where_.root; }

    // In a hierarchy, each `group` consecutive ranks share memory, and the first of them is their leader.
    [[nodiscard]] constexpr int group() const noexcept { return where_.group; }
    [[nodiscard]] constexpr int groups() const noexcept { return where_.size / where_.group; }
    [[nodiscard]] constexpr int own_group() const noexcept { return where_.rank / where_.group; }
    [[nodiscard]] constexpr int root_group() const noexcept { return where_.root / where_.group; }
    [[nodiscard]] constexpr int leader() const noexcept { return own_group() * where_.group; }
    [[nodiscard]] constexpr bool is_leader() const noexcept { return where_.rank == leader(); }

  private:
    setting where_;
};

}  // namespace allfold
