// SPDX-License-Identifier: BSL-1.0
#pragma once

/// @file
/// What all schedules have in common: the algorithm that they belong to, a rank, a size, perhaps a root.

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

}  // namespace allfold
