// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/schedule/step.hpp"

/// @file
/// Schedules of different types behind one.

namespace allfold {

/// Any schedule behind one type. Models `schedule` but for the static facts, which it has as members.
class any_schedule {
  public:
    template <schedule S>
    [[nodiscard]] static any_schedule of(const S& s, int root = 0, int group = 1) {
        return {s.rank(), s.size(), root, group, s.blocks(), s.rounds(), &ask<S>};
    }

    [[nodiscard]] int rank() const noexcept { return rank_; }
    [[nodiscard]] int size() const noexcept { return size_; }
    [[nodiscard]] int blocks() const noexcept { return blocks_; }
    [[nodiscard]] int rounds() const noexcept { return rounds_; }
    [[nodiscard]] step operator[](int round) const { return step_(rank_, size_, root_, group_, round); }
    /// The same schedule as another rank sees it.
    [[nodiscard]] any_schedule at(int rank) const {
        any_schedule other = *this;
        other.rank_ = rank;
        return other;
    }

  private:
    using question = step (*)(int rank, int size, int root, int group, int round);
    any_schedule(int rank, int size, int root, int group, int blocks, int rounds, question about)
        : rank_(rank), size_(size), root_(root), group_(group), blocks_(blocks), rounds_(rounds), step_(about) {}

    template <class S>
    [[nodiscard]] static step ask(int rank, int size, int root, int group, int round) {
        return make_schedule<S>(rank, size, root, group)[round];
    }
    int rank_, size_, root_, group_, blocks_, rounds_;
    question step_;
};

}  // namespace allfold
