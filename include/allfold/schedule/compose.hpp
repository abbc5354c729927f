// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>

#include "allfold/schedule/schedule_of.hpp"
#include "allfold/schedule/step.hpp"

/// @file
/// An all_reduce composed of a reduce_scatter and an all_gather.

namespace allfold {

namespace detail {

/// The step with each of its slots replaced.
[[nodiscard]] constexpr step with_slots(step s, slot (*replaced)(slot)) noexcept {
    s.source = replaced(s.source);
    s.mine = replaced(s.mine);
    s.into = replaced(s.into);
    if (s.local.what == local_work::kind::none) return s;
    s.local.left = replaced(s.local.left);
    s.local.right = replaced(s.local.right);
    s.local.into = replaced(s.local.into);
    const bool copies_in_place = s.local.what == local_work::kind::copy && s.local.left == s.local.into;
    if (copies_in_place && s.local.targets.empty()) s.local = {};
    return s;
}

/// Every rank ends up with the whole result, so the reduce_scatter may keep its partial folds there.
[[nodiscard]] constexpr slot partials_in_result(slot s) noexcept {
    return s == slot::scratch_a ? slot::result : s == slot::scratch_b ? slot::scratch_a : s;
}

/// Whether steps are all there is to a schedule: nothing is addressed per peer, in two parts, or in scratch blocks of
/// its own.
template <class S>
inline constexpr bool is_steps_alone = !requires(const S s) { s.also(0); } && !requires(const S s) {
    s.scratch();
} && !requires(const S s) { s.sent_to(0, 0); } && !requires(const S s) { s.received_from(0, 0); };

/// The all_gather starts from the result of the reduce_scatter.
[[nodiscard]] constexpr slot input_is_result(slot s) noexcept { return s == slot::input ? slot::result : s; }

}  // namespace detail

/// An all_reduce that runs first `ReduceScatter`, then `AllGather`:
///
///     struct mine {
///         static constexpr const char* name = "halving, then ring";
///         using all_reduce = composed<recursive_halving::reduce_scatter, ring::all_gather>;
///     };
///     all_reduce(comm, x, op, mine{});
///
/// Rounds and volume are the sums over both; the order is that of the reduce_scatter.
template <class ReduceScatter, class AllGather>
class composed : public schedule_of<typename ReduceScatter::algorithm> {
    static_assert(detail::is_steps_alone<ReduceScatter> && detail::is_steps_alone<AllGather>,
                  "allfold: composed<> takes schedules without also(), scratch(), sent_to() and received_from(): write "
                  "a schedule of your own instead");

  public:
    static constexpr order keeps = ReduceScatter::keeps;
    static constexpr int scratch_slots = std::max(ReduceScatter::scratch_slots - 1, AllGather::scratch_slots);
    static constexpr bool in_place = ReduceScatter::in_place && AllGather::in_place;

    using schedule_of<typename ReduceScatter::algorithm>::schedule_of;
    [[nodiscard]] static constexpr bool supports(int size) noexcept {
        return allfold::supports<ReduceScatter>(size) && allfold::supports<AllGather>(size);
    }
    [[nodiscard]] constexpr int blocks() const noexcept { return first().blocks(); }
    [[nodiscard]] constexpr int rounds() const noexcept { return first().rounds() + second().rounds(); }
    [[nodiscard]] constexpr step operator[](int round) const noexcept {
        const int before = first().rounds();
        return round < before ? detail::with_slots(first()[round], detail::partials_in_result)
                              : detail::with_slots(second()[round - before], detail::input_is_result);
    }

  private:
    [[nodiscard]] constexpr ReduceScatter first() const noexcept { return ReduceScatter(this->where()); }
    [[nodiscard]] constexpr AllGather second() const noexcept { return AllGather(this->where()); }
};

}  // namespace allfold
