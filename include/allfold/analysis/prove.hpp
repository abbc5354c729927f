// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "allfold/analysis/detail/interpreter.hpp"
#include "allfold/analysis/proof.hpp"
#include "allfold/error.hpp"
#include "allfold/schedule/step.hpp"

/// @file
/// Proves that a schedule does what it says, for a given number of ranks: by running all ranks over values that name
/// the ranks whose operands they are made of. The same code at compile time and at run time.
///
///     static_assert(allfold::proved<allfold::ring::all_reduce>(8));
///     std::cout << allfold::explain(allfold::prove<my_schedule>(12));
///
/// What is proved, for this P:
/// 1. Every message meets a receive of its partner, and every receive a message, with the same blocks in the same
/// order.
/// 2. Nothing deadlocks when no message is buffered, so that a send ends only when it is received.
/// 3. Every block ends where the collective's contract says, made of each operand exactly once: in rank order where
///    the schedule keeps `order::rank`, and bracketed as the canonical tree where it keeps `order::tree`.
/// 4. No step reads a slot where nothing lies, receives into what it sends, or writes what is not its own.
/// 5. The claims `scratch_slots` and `in_place` hold.

namespace allfold {

/// What the schedule `S` says about itself.
template <schedule S>
[[nodiscard]] constexpr claim claim_of(int root = 0) noexcept {
    return {S::goal, S::keeps, S::scratch_slots, S::in_place, root};
}

namespace detail {

/// The cheapest values that say enough.
[[nodiscard]] constexpr proof prove_all(int size, const schedules& all, const claim& claimed) {
    if (claimed.keeps != order::any || !folds(claimed.goal))
        return interpreter<rank_interval>(size, all, claimed).run();
    if (size <= 64) return interpreter<rank_set<1>>(size, all, claimed).run();
    if (size <= 512) return interpreter<rank_set<8>>(size, all, claimed).run();
    if (size <= 4096) return interpreter<rank_set<64>>(size, all, claimed).run();
    throw error(errc::bad_argument,
                "prove: at most 4096 ranks for a schedule without rank order, not " + std::to_string(size));
}

}  // namespace detail

/// Proves the schedules that `make(rank)` gives for all ranks below `size`, against a claim.
/// @throws error (bad_argument) for more than 4096 ranks where the order is `any`, a proof that takes P bits a block.
template <class Make>
    requires schedule<std::invoke_result_t<const Make&, int>>
[[nodiscard]] constexpr proof prove(int size, const Make& make, const claim& claimed) {
    return detail::prove_all(size, detail::schedules_made_by<Make>(make), claimed);
}

/// Proves the schedule `S` of `size` ranks, where it is grouped in groups of `group`.
template <schedule S>
[[nodiscard]] constexpr proof prove(int size, int root = 0, int group = 1) {
    if (!supports<S>(size, group)) return {.what = fault::unsupported, .size = size};
    return prove(size, [=](int rank) { return make_schedule<S>(rank, size, root, group); }, claim_of<S>(root));
}

namespace detail {

/// Roots for which a schedule of `size` ranks is proved: all of a few, or one within and the last.
template <schedule S>
[[nodiscard]] constexpr int roots_to_prove(int size) noexcept {
    if (!rooted_schedule<S>) return 1;
    return size <= 8 ? size : 2;
}
[[nodiscard]] constexpr int root_to_prove(int i, int size) noexcept {
    if (size <= 8) return i;
    return i == 0 ? size / 3 : size - 1;
}

}  // namespace detail

/// Whether the schedule is proved for `size` ranks: for all roots where there are at most 8 ranks, otherwise for one
/// within and the last.
template <schedule S>
[[nodiscard]] constexpr bool proved(int size, int group = 1) {
    for (int i = 0; i < detail::roots_to_prove<S>(size); ++i)
        if (!prove<S>(size, detail::root_to_prove(i, size), group).ok()) return false;
    return true;
}

namespace detail {

template <class S, int Size, int Group, int Root>
inline constexpr bool proved_at = prove<S>(Size, Root, Group).ok();

template <class S, int Size, int Group, int... Roots>
[[nodiscard]] constexpr bool proved_for_roots(std::integer_sequence<int, Roots...>) noexcept {
    if constexpr (supports<S>(Size, Group))
        return (proved_at<S, Size, Group, root_to_prove(Roots, Size)> && ...);
    else
        return true;
}

template <class S, int Group, int... Before>
[[nodiscard]] constexpr bool proved_for_sizes(std::integer_sequence<int, Before...>) noexcept {
    return (proved_for_roots<S, Before + 1, Group>(std::make_integer_sequence<int, roots_to_prove<S>(Before + 1)>()) &&
            ...);
}

}  // namespace detail

/// `static_assert(proved_up_to<S, 32>)`: proved for each number of ranks from 1 to `Last` that it supports. One
/// constant evaluation for each, so that compilers' limits on a single one are not met. `proved_up_to<S, 32, 4>`: for
/// groups of 4.
template <schedule S, int Last, int Group = 1>
inline constexpr bool proved_up_to = detail::proved_for_sizes<S, Group>(std::make_integer_sequence<int, Last>());

}  // namespace allfold
