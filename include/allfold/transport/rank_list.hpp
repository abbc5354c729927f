// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "allfold/error.hpp"

/// @file
/// Some of a communicator's ranks, in any order.

namespace allfold {

/// A list of ranks without duplicates: `rank_list{4, 0, 2}`, in this order, or `rank_list::strided(0, 3, 2)`, which is
/// 0, 2, 4 and takes the same memory however many ranks there are.
class rank_list {
  public:
    rank_list() = default;
    rank_list(std::initializer_list<int> ranks) : rank_list(std::vector<int>(ranks)) {}
    rank_list(std::vector<int> ranks) : count_(static_cast<int>(ranks.size())), listed_(std::move(ranks)) {}
    rank_list(const rank_list&) = default;
    rank_list& operator=(const rank_list&) = default;
    /// The other list is empty afterwards.
    rank_list(rank_list&& other) noexcept { *this = std::move(other); }
    rank_list& operator=(rank_list&& other) noexcept {
        first_ = other.first_;
        count_ = std::exchange(other.count_, 0);
        stride_ = other.stride_;
        listed_ = std::move(other.listed_);
        return *this;
    }
    ~rank_list() = default;
    /// first, first + stride, first + 2·stride, ...; the stride may be negative.
    [[nodiscard]] static rank_list strided(int first, int count, int stride = 1) {
        const std::int64_t last = first + (std::int64_t{count} - 1) * stride;
        if (count < 0 || (count > 1 && (stride == 0 || !std::in_range<int>(last))))
            throw error(errc::bad_argument, detail::text({"rank_list: ", count, " ranks with stride ", stride,
                                                          " are not distinct valid ranks"}));
        rank_list some;
        some.first_ = first;
        some.count_ = count;
        some.stride_ = count > 1 ? stride : 1;
        return some;
    }

    [[nodiscard]] int size() const noexcept { return count_; }
    [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
    [[nodiscard]] int operator[](int i) const noexcept {
        return listed_.empty() ? first_ + i * stride_ : listed_[static_cast<std::size_t>(i)];
    }
    /// The position of a rank in the list; -1 if it is not there.
    [[nodiscard]] int find(int rank) const noexcept {
        if (listed_.empty()) {
            const std::int64_t from_first = std::int64_t{rank} - first_, at = from_first / stride_;
            return from_first % stride_ == 0 && at >= 0 && at < count_ ? static_cast<int>(at) : -1;
        }
        const auto found = std::ranges::find(listed_, rank);
        return found == listed_.end() ? -1 : static_cast<int>(found - listed_.begin());
    }
    [[nodiscard]] bool contains(int rank) const noexcept { return find(rank) >= 0; }

    /// The ranks at these positions of another list; a strided list if both are.
    [[nodiscard]] rank_list among(const rank_list& all) const {
        if (listed_.empty() && all.listed_.empty())
            return strided(all.first_ + first_ * all.stride_, count_, stride_ * all.stride_);
        std::vector<int> found;
        found.reserve(static_cast<std::size_t>(count_));
        for (int i = 0; i < count_; ++i) found.push_back(all[(*this)[i]]);
        return rank_list(std::move(found));
    }

    /// Whether both have the same ranks in the same order, however they are stored.
    friend bool operator==(const rank_list& a, const rank_list& b) noexcept {
        if (a.count_ != b.count_) return false;
        for (int i = 0; i < a.count_; ++i)
            if (a[i] != b[i]) return false;
        return true;
    }
    [[nodiscard]] bool has_same_ranks(const rank_list& other) const { return sorted() == other.sorted(); }
    [[nodiscard]] bool overlaps(const rank_list& other) const noexcept {
        for (int i = 0; i < count_; ++i)
            if (other.contains((*this)[i])) return true;
        return false;
    }

    /// Throws unless all are ranks below `size`, without duplicates.
    void check(int size) const {
        const auto refuse = [](std::initializer_list<detail::text_piece> why) {
            throw error(errc::bad_rank, "rank_list: " + detail::text(why));
        };
        const auto require_rank = [&](int rank) {
            if (rank < 0 || rank >= size) refuse({"rank ", rank, " is not in [0, ", size, ")"});
        };
        if (listed_.empty()) {
            if (count_ > 0) require_rank(first_), require_rank((*this)[count_ - 1]);
            return;
        }
        const std::vector<int> all = sorted();
        for (const int rank : all) require_rank(rank);
        if (const auto twice = std::ranges::adjacent_find(all); twice != all.end())
            refuse({"rank ", *twice, " is in the list twice"});
    }

  private:
    [[nodiscard]] std::vector<int> sorted() const {
        std::vector<int> all;
        all.reserve(static_cast<std::size_t>(count_));
        for (int i = 0; i < count_; ++i) all.push_back((*this)[i]);
        std::ranges::sort(all);
        return all;
    }

    int first_ = 0, count_ = 0, stride_ = 1;
    std::vector<int> listed_;  // used instead unless it is empty
};

}  // namespace allfold
