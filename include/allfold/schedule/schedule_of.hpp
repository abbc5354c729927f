// SPDX-License-Identifier: BSL-1.0
#pragma once

/// @file
/// What all schedules have in common: the algorithm that they belong to, a rank, a size, perhaps a root or groups.

namespace allfold {

/// Base of the schedules of one algorithm: `struct ring { class all_gather : public schedule_of<ring> {...}; };`
template <class Algorithm>
class schedule_of {
  public:
    using algorithm = Algorithm;

    constexpr schedule_of(int rank, int size) noexcept : rank_(rank), size_(size) {}
    [[nodiscard]] constexpr int rank() const noexcept { return rank_; }
    [[nodiscard]] constexpr int size() const noexcept { return size_; }

  private:
    int rank_;
    int size_;
};

/// Base of the schedules of collectives with a root.
template <class Algorithm>
class rooted_schedule_of : public schedule_of<Algorithm> {
  public:
    constexpr rooted_schedule_of(int rank, int size, int root) noexcept
        : schedule_of<Algorithm>(rank, size), root_(root) {}
    [[nodiscard]] constexpr int root() const noexcept { return root_; }
    [[nodiscard]] constexpr bool is_root() const noexcept { return this->rank() == root_; }

  private:
    int root_;
};

/// Base of the schedules of a hierarchy: each `group` consecutive ranks share memory, the first of them is the leader.
template <class Algorithm>
class grouped_schedule_of : public schedule_of<Algorithm> {
  public:
    static constexpr bool grouped = true;

    constexpr grouped_schedule_of(int rank, int size, int group) noexcept
        : schedule_of<Algorithm>(rank, size), group_(group) {}
    [[nodiscard]] constexpr int group() const noexcept { return group_; }
    [[nodiscard]] constexpr int groups() const noexcept { return this->size() / group_; }
    /// The number of this rank's group.
    [[nodiscard]] constexpr int own_group() const noexcept { return this->rank() / group_; }
    [[nodiscard]] constexpr int leader() const noexcept { return own_group() * group_; }
    [[nodiscard]] constexpr bool is_leader() const noexcept { return this->rank() == leader(); }

  private:
    int group_;
};

/// Base of those of collectives with a root.
template <class Algorithm>
class rooted_grouped_schedule_of : public grouped_schedule_of<Algorithm> {
  public:
    constexpr rooted_grouped_schedule_of(int rank, int size, int root, int group) noexcept
        : grouped_schedule_of<Algorithm>(rank, size, group), root_(root) {}
    [[nodiscard]] constexpr int root() const noexcept { return root_; }
    [[nodiscard]] constexpr bool is_root() const noexcept { return this->rank() == root_; }
    /// The number of the root's group.
    [[nodiscard]] constexpr int root_group() const noexcept { return root_ / this->group(); }

  private:
    int root_;
};

}  // namespace allfold
