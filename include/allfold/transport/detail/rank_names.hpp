// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <utility>

#include "allfold/transport/rank_list.hpp"

/// @file
/// What error messages call the ranks of a communicator that a larger one is built from.

namespace allfold::detail {

/// The ranks of a part as ranks of the whole, which is what the user knows.
class rank_names {
  public:
    /// Of a communicator that is not part of a larger one.
    explicit rank_names(int size) : in_whole_(rank_list::strided(0, size)), whole_(size) {}
    rank_names(rank_list in_whole, int whole) : in_whole_(std::move(in_whole)), whole_(whole) {}

    [[nodiscard]] int operator()(int rank) const noexcept { return rank < 0 ? rank : in_whole_[rank]; }
    /// How many ranks the whole has.
    [[nodiscard]] int size() const noexcept { return whole_; }

  private:
    rank_list in_whole_;
    int whole_;
};

}  // namespace allfold::detail
