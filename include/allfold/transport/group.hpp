// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "allfold/error.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/rank_list.hpp"
#include "allfold/transport/team.hpp"

/// @file
/// Groups: ordered sets of ranks of a communicator, to be combined before a team is made of them.

namespace allfold {

/// first, first + stride, ..., up to last. If last is less than first, the stride is negative.
struct rank_range {
    int first;
    int last;
    int stride = 1;
};

/// Some ranks of a communicator, in order: a value, which sends nothing. The i-th of them has number i in the group.
///
///     const group all = group::of(comm);
///     const group even = all.include({rank_range{0, comm.size() - 1, 2}});
///     const auto others = subset(comm, all - even);
///
/// - Groups can be compared and combined within one communicator; they know nothing about the ranks of another.
/// - Errors: `bad_rank` for numbers outside [0, size()) and for duplicates, `bad_argument` for a stride that does not
///   lead from first to last.
/// - Source: MPI-4.1, section 7.3.
class group {
  public:
    /// The empty group.
    group() = default;
    /// All ranks of a communicator, in order.
    template <communicator Comm>
    [[nodiscard]] static group of(const Comm& comm) {
        return group(rank_list::strided(0, comm.size()), comm.rank());
    }
    /// The ranks of a team of that communicator.
    template <communicator Comm, class Own>
    [[nodiscard]] static group of(const Comm& parent, const team<Own>& some) {
        return group(some.members(), parent.rank());
    }

    [[nodiscard]] int size() const noexcept { return ranks_.size(); }
    [[nodiscard]] bool empty() const noexcept { return ranks_.empty(); }
    /// This rank's number in the group; -1 if it is not in it.
    [[nodiscard]] int rank() const noexcept { return ranks_.find(own_); }
    /// The ranks of the communicator, in the order of the group, which converts to this list wherever one is expected.
    [[nodiscard]] const rank_list& ranks() const noexcept { return ranks_; }
    [[nodiscard]] operator const rank_list&() const noexcept { return ranks_; }  // NOLINT(*-explicit-*)

    /// The number in another group of this group's member `number`; -1 if it is not in that one.
    [[nodiscard]] int translate(int number, const group& other) const {
        require_number(number);
        return other.ranks_.find(ranks_[number]);
    }
    [[nodiscard]] std::vector<int> translate(std::span<const int> numbers, const group& other) const {
        std::vector<int> found;
        found.reserve(numbers.size());
        for (const int each : numbers) found.push_back(translate(each, other));
        return found;
    }
    /// `identical` for the same ranks in the same order, `similar` for the same in another order, otherwise `unequal`.
    [[nodiscard]] likeness compare(const group& other) const {
        if (ranks_ == other.ranks_) return likeness::identical;
        return ranks_.has_same_ranks(other.ranks_) ? likeness::similar : likeness::unequal;
    }
    friend bool operator==(const group& a, const group& b) noexcept { return a.ranks_ == b.ranks_; }

    /// The union: all of the first group, followed by those of the second that are not in the first.
    [[nodiscard]] friend group operator|(const group& a, const group& b) {
        std::vector<int> both = a.listed();
        for (const int rank : b.listed())
            if (!a.ranks_.contains(rank)) both.push_back(rank);
        return group(rank_list(std::move(both)), a.own_ >= 0 ? a.own_ : b.own_);
    }
    /// The intersection, in the order of the first group.
    [[nodiscard]] friend group operator&(const group& a, const group& b) {
        return a.those([&](int, int rank) { return b.ranks_.contains(rank); });
    }
    /// The difference: those of the first group that are not in the second, in order.
    [[nodiscard]] friend group operator-(const group& a, const group& b) {
        return a.those([&](int, int rank) { return !b.ranks_.contains(rank); });
    }

    /// The members with these numbers, in this order.
    [[nodiscard]] group include(const rank_list& numbers) const {
        numbers.check(size());
        return group(numbers.among(ranks_), own_);
    }
    [[nodiscard]] group include(std::initializer_list<rank_range> ranges) const { return include(numbers_of(ranges)); }
    /// All but the members with these numbers, in order.
    [[nodiscard]] group exclude(const rank_list& numbers) const {
        numbers.check(size());
        return those([&](int number, int) { return !numbers.contains(number); });
    }
    [[nodiscard]] group exclude(std::initializer_list<rank_range> ranges) const { return exclude(numbers_of(ranges)); }

  private:
    group(rank_list ranks, int own) : ranks_(std::move(ranks)), own_(own) {}

    [[nodiscard]] group with(std::vector<int> ranks) const { return group(rank_list(std::move(ranks)), own_); }
    [[nodiscard]] std::vector<int> listed() const {
        std::vector<int> all;
        all.reserve(static_cast<std::size_t>(size()));
        for (int i = 0; i < size(); ++i) all.push_back(ranks_[i]);
        return all;
    }
    template <class Keeps>
    [[nodiscard]] group those(Keeps keeps) const {
        std::vector<int> some;
        for (int i = 0; i < size(); ++i)
            if (keeps(i, ranks_[i])) some.push_back(ranks_[i]);
        return with(std::move(some));
    }
    void require_number(int number) const {
        if (number < 0 || number >= size())
            throw error(errc::bad_rank, detail::text({"group: number ", number, " is not in [0, ", size(), ")"}));
    }
    [[nodiscard]] static rank_list numbers_of(std::initializer_list<rank_range> ranges) {
        std::vector<int> all;
        for (const auto& [first, last, stride] : ranges) {
            if (stride == 0 || (stride > 0 ? last < first : last > first))
                throw error(errc::bad_argument,
                            detail::text({"group: a stride of ", stride, " does not lead from ", first, " to ", last}));
            for (long long number = first; stride > 0 ? number <= last : number >= last; number += stride)
                all.push_back(static_cast<int>(number));
        }
        return rank_list(std::move(all));
    }

    rank_list ranks_;
    int own_ = -1;
};

}  // namespace allfold
