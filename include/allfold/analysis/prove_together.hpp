// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "allfold/analysis/detail/costs.hpp"
#include "allfold/analysis/detail/interpreter.hpp"
#include "allfold/analysis/detail/rank_bits.hpp"
#include "allfold/analysis/detail/schedules.hpp"
#include "allfold/analysis/proof.hpp"
#include "allfold/schedule/step.hpp"

/// @file
/// Proves that two schedules can run at once, on two communicators of the same ranks.
///
/// Messages of one communicator never meet those of the other, so what each schedule computes is what `prove` says
/// about it alone. What remains is whether both end when each rank waits for them in its own order:
/// - A rank that makes progress on whatever it has in flight, whichever it waits for, leaves a step as soon as the
///   peers of that step are there: nothing in it depends on the other communicator. So both end if each ends alone, in
///   every order of waiting and however the steps of the two are interleaved.
/// - A rank that makes progress only on what it waits for does not reach the steps of the other: then ranks that wait
///   in different orders wait for each other.

namespace allfold {

/// What a waiting rank makes progress on.
enum class pushes : std::uint8_t { all_in_flight, awaited_only };

namespace detail {

/// Two runs that take turns.
class run_of_two {
  public:
    constexpr run_of_two(int size, const schedules& a, const schedules& b)
        : size_(size),
          first_costs_(size),
          second_costs_(size),
          first_(size, a, first_costs_),
          second_(size, b, second_costs_),
          rounds_(a.rounds(0) + b.rounds(0)) {}

    /// `first_is_awaited(rank)`: whether a rank waits for the first one first. `turn(i)`: whether in turn i the first
    /// one goes on if it can, rather than the second.
    template <class Order, class Turn>
    constexpr proof run(const Order& first_is_awaited, pushes what, const Turn& turn) {
        for (int r = 0; r < size_; ++r) {
            if (what == pushes::all_in_flight || first_is_awaited(r)) first_.start(r);
            if (what == pushes::all_in_flight || !first_is_awaited(r)) second_.start(r);
        }
        begun_ = rank_bits(size_);
        for (long long i = 0; advance(turn(i)); ++i)
            if (what == pushes::awaited_only) begin_others(first_is_awaited);
        return outcome(first_is_awaited);
    }

  private:
    [[nodiscard]] constexpr bool advance(bool first) {
        return first ? first_.advance() || second_.advance() : second_.advance() || first_.advance();
    }
    /// A rank that has ended what it waited for begins the other one.
    template <class Order>
    constexpr void begin_others(const Order& first_is_awaited) {
        for (int r = 0; r < size_; ++r) {
            const bool first = first_is_awaited(r);
            if (begun_.contains(r) || !(first ? first_.ended(r) : second_.ended(r))) continue;
            begun_.insert(r);
            if (first)
                second_.start(r);
            else
                first_.start(r);
        }
    }

    template <class Order>
    [[nodiscard]] constexpr proof outcome(const Order& first_is_awaited) const {
        proof p{.size = size_};
        if (!first_costs_.ok) p = first_costs_.verdict;
        if (p.ok() && !second_costs_.ok) p = second_costs_.verdict;
        for (int r = 0; r < size_ && p.ok(); ++r)
            if (!ended(r)) p = why_stuck(r, first_is_awaited);
        p.size = size_;
        p.rounds = rounds_;
        first_costs_.add_to(p);
        second_costs_.add_to(p);
        return p;
    }
    [[nodiscard]] constexpr bool ended(int rank) const { return first_.ended(rank) && second_.ended(rank); }

    /// A rank that is stuck waits for a peer in the first of the two, in its own order, that it has not ended.
    template <class Order>
    [[nodiscard]] constexpr const interpreter<costs>& awaited_by(int rank, const Order& first_is_awaited) const {
        const bool first = first_is_awaited(rank) ? !first_.ended(rank) : second_.ended(rank);
        return first ? first_ : second_;
    }
    template <class Order>
    [[nodiscard]] constexpr int waits_for(int rank, const Order& first_is_awaited) const {
        return awaited_by(rank, first_is_awaited).waits_for(rank);
    }
    template <class Order>
    [[nodiscard]] constexpr proof why_stuck(int rank, const Order& order_of) const {
        rank_bits seen(size_);
        for (; !seen.contains(rank); rank = waits_for(rank, order_of)) {
            seen.insert(rank);
            if (const int peer = waits_for(rank, order_of); ended(peer))
                return awaited_by(rank, order_of).unmatched(rank, peer);
        }
        proof stuck{.what = fault::deadlock, .rank = rank, .peer = waits_for(rank, order_of)};
        for (int next = rank; stuck.circle_length == 0 || next != rank; next = waits_for(next, order_of)) {
            if (stuck.circle_length < static_cast<int>(stuck.circle.size()))
                stuck.circle[static_cast<std::size_t>(stuck.circle_length)] = next;
            ++stuck.circle_length;
        }
        return stuck;
    }

    int size_;
    costs first_costs_;
    costs second_costs_;
    interpreter<costs> first_;
    interpreter<costs> second_;
    int rounds_;
    rank_bits begun_{};
};

}  // namespace detail

/// Proves that the schedules that `first(rank)` and `second(rank)` return always end when they run at the same time,
/// where `first_is_awaited(rank)` says which one a rank waits for first. `turn(i)` picks the one that goes on in turn
/// i. The costs, and the rounds, are the sums of both. That ranks disagree about rounds is found as by `prove`, which
/// proves what the schedules compute.
template <class First, class Second, class Order, class Turn>
    requires schedule<std::invoke_result_t<const First&, int>> && schedule<std::invoke_result_t<const Second&, int>>
[[nodiscard]] constexpr proof prove_together(int size, const First& first, const Second& second,
                                             const Order& first_is_awaited, pushes what, const Turn& turn) {
    if (size < 1) return {.what = fault::unsupported, .size = size};
    const detail::schedules_of a(size, first);
    const detail::schedules_of b(size, second);
    proof rounds = detail::check_rounds(size, a);
    if (rounds.ok()) rounds = detail::check_rounds(size, b);
    if (!rounds.ok()) return rounds;
    return detail::run_of_two(size, a, b).run(first_is_awaited, what, turn);
}

/// The same, with the first going on as far as it can before the second does.
template <class First, class Second, class Order>
    requires schedule<std::invoke_result_t<const First&, int>> && schedule<std::invoke_result_t<const Second&, int>>
[[nodiscard]] constexpr proof prove_together(int size, const First& first, const Second& second,
                                             const Order& first_is_awaited, pushes what) {
    return prove_together(size, first, second, first_is_awaited, what, [](long long) { return true; });
}

}  // namespace allfold
