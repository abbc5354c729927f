// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "allfold/analysis/detail/explored_call.hpp"
#include "allfold/analysis/detail/explored_world.hpp"
#include "allfold/analysis/detail/search_tree.hpp"

/// @file
/// Repeats an execution with standard sends that wait.
///
/// Messages arrive at each rank in the same order, as far as anyone can tell, and a send waits for its receive unless
/// that order needs it to be held. Within one order, holding a send only lets its rank go on (F. Commoner and others,
/// Marked directed graphs, 1971), so no rank gets further here than in any deadlock of this order. If all ranks wait,
/// this is one. If a rank can go on, but only with something that comes later in the order, it gets further in each of
/// those deadlocks: there, what comes first has been sent, so the send that keeps it back is held. In the end a
/// deadlock is found if there is one, whichever sends it needs to be held.

namespace allfold::detail {

class same_order {
  public:
    same_order(const search_tree& latest, explored_world& world) : world_(world) {
        for (int r = 0; r < world.size(); ++r) ranks_.push_back({latest.order_of(r)});
    }

    /// The index of the step to take, of those that are possible now. `is_unseen(step)`: whether nobody can tell when
    /// it happens.
    template <class IsUnseen>
    [[nodiscard]] int choose(const std::vector<explored_step>& possible, IsUnseen is_unseen) {
        const auto first = [&](auto is) {
            for (std::size_t i = 0; i < possible.size(); ++i)
                if (is(possible[i])) return static_cast<int>(i);
            return -1;
        };
        const auto goes_on = [](const explored_step& each) {
            return each.rank != explored_world::nobody && !each.holds();
        };
        if (const int any = first([&](const auto& each) { return goes_on(each) && is_free(each, is_unseen); });
            any >= 0)
            return any;
        if (const int next =
                first([&](const auto& each) { return goes_on(each) && ranks_[at(each.rank)].is_next(each); });
            next >= 0) {
            ranks_[at(possible[at(next)].rank)].take(possible[at(next)]);
            return next;
        }
        const int early = first([&](const auto& each) { return goes_on(each) && !each.is_last_resort; });
        if (early < 0) return 0;  // no rank goes on, or does more than test in vain
        std::uint64_t asked = 0;
        const int held = find_hold(possible, possible[at(early)].rank, asked);
        if (held >= 0) return held;
        ranks_[at(possible[at(early)].rank)].order.clear();  // its order cannot be kept
        return early;
    }

  private:
    struct rank_order {
        std::vector<search_tree::ordered_step> order;  // the next step is the last element
        [[nodiscard]] const explored_step* next() const { return order.empty() ? nullptr : &order.back().what; }
        [[nodiscard]] bool has(const explored_step& step) const {
            return std::ranges::find(order, step, &search_tree::ordered_step::what) != order.end();
        }
        /// The step that this one must not precede, which may be itself. A rank that waits in a send takes in messages
        /// that it took in later when the send was held, after it had gone on: to its collectives, which know nothing
        /// of them, or to another communicator, without asking for any.
        [[nodiscard]] auto due_before(const explored_step& step) const {
            const bool may_be_early = step.has_message && !is_of_a_collective(step);
            auto found = order.rbegin();
            while (may_be_early && found != order.rend() && found->what != step &&
                   (is_of_a_collective(found->what) || !asks_for(*found, step)))
                ++found;
            return found;
        }
        [[nodiscard]] bool is_next(const explored_step& step) const {
            const auto found = due_before(step);
            return found != order.rend() && found->what == step;
        }
        void take(const explored_step& step) { order.erase(std::next(due_before(step)).base()); }
        [[nodiscard]] static bool is_of_a_collective(const explored_step& step) noexcept {
            return step.has_message && (step.channel.is_end() || step.channel.is_of_a_collective());
        }
        [[nodiscard]] static bool asks_for(const search_tree::ordered_step& each, const explored_step& delivery) {
            return std::ranges::find(each.asked, delivery.channel) != each.asked.end();
        }
    };

    [[nodiscard]] static std::size_t at(int i) noexcept { return static_cast<std::size_t>(i); }
    /// Whether it does not matter when this step happens.
    template <class IsUnseen>
    [[nodiscard]] bool is_free(const explored_step& step, IsUnseen is_unseen) const {
        const rank_order& own = ranks_[at(step.rank)];
        if (own.due_before(step) == own.order.rend() || (step.has_message && is_unseen(step))) return true;
        if (world_.of(step.rank).at == explored_rank::place::chooses && own.next()->has_message) return true;
        return step.channel.is_answer() && !own.has(step);
    }
    /// Whether it is about the send that its rank waits for.
    [[nodiscard]] bool is_about_awaited_send(const explored_step& step) const {
        const explored_call* const call = world_.of(step.rank).call();
        return call != nullptr && step.channel.group == call->group && step.channel.on == lane_of_answer(call->number);
    }
    /// The step that holds the send which keeps back what this rank gets next; -1 if none is found.
    [[nodiscard]] int find_hold(const std::vector<explored_step>& possible, int rank, std::uint64_t& asked) {
        const explored_step* const next = ranks_[at(rank)].next();
        const bool is_of_itself = next != nullptr && !next->channel.is_message();
        const int source = next == nullptr ? -1 : is_of_itself ? rank : next->channel.from;
        for (const int peer : {source, world_.of(rank).where.peer}) {
            if (peer < 0 || (asked >> peer & 1) != 0) continue;
            asked |= std::uint64_t{1} << peer;
            if (const int held = hold_of(possible, peer); held >= 0) return held;
            if (const int held = find_hold(possible, peer, asked); held >= 0) return held;
        }
        return -1;
    }
    /// The step that holds the send that the rank waits for, or any of its sends if that is not known.
    [[nodiscard]] int hold_of(const std::vector<explored_step>& possible, int rank) {
        int found = -1;
        for (std::size_t i = possible.size(); i-- > 0;)
            if (possible[i].rank == rank && possible[i].holds()) {
                if (is_about_awaited_send(possible[i])) return static_cast<int>(i);
                found = static_cast<int>(i);
            }
        return found;
    }

    explored_world& world_;
    std::vector<rank_order> ranks_;
};

}  // namespace allfold::detail
