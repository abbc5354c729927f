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
/// An execution once more, in which standard sends wait.
///
/// Its messages come to each rank in the same order, as far as that can be told, and a send waits for its receive
/// unless that order needs it to be held. In one order a send that is held only lets its rank go on (F. Commoner and
/// others, Marked directed graphs, 1971), so nobody is further here than in any deadlock of this order. Where all wait,
/// that is one. Where a rank may go on, but with what the order has later, it is further in each of them: what comes to
/// it first has been sent there, so the send that keeps this back is held. In the end a deadlock is found if there is
/// one, whichever sends it needs to be held.

namespace allfold::detail {

class same_order {
  public:
    same_order(const search_tree& latest, explored_world& world) : world_(world) {
        for (int r = 0; r < world.size(); ++r) ranks_.push_back({latest.order_of(r)});
    }

    /// Which of the steps that are possible now, in their order. `is_unseen(step)`: whether its time cannot be told.
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
        if (early < 0) return 0;  // nobody goes on, or does more than to test in vain
        std::uint64_t asked = 0;
        const int held = find_hold(possible, possible[at(early)].rank, asked);
        if (held >= 0) return held;
        ranks_[at(possible[at(early)].rank)].order.clear();  // it cannot be kept
        return early;
    }

  private:
    struct rank_order {
        std::vector<search_tree::ordered_step> order;  // the next one comes last
        [[nodiscard]] const explored_step* next() const { return order.empty() ? nullptr : &order.back().what; }
        [[nodiscard]] bool has(const explored_step& step) const {
            return std::ranges::find(order, step, &search_tree::ordered_step::what) != order.end();
        }
        /// What this step may not come before; or itself. A rank that waits with a send takes in messages that it has
        /// taken in later where it was held, when it had gone on: to its collectives, which know nothing of them, or to
        /// another communicator, and asked for none.
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
    /// Whether it does not matter when that comes.
    template <class IsUnseen>
    [[nodiscard]] bool is_free(const explored_step& step, IsUnseen is_unseen) const {
        const rank_order& own = ranks_[at(step.rank)];
        if (own.due_before(step) == own.order.rend() || (step.has_message && is_unseen(step))) return true;
        if (world_.of(step.rank).at == explored_world::place::chooses && own.next()->has_message) return true;
        return step.channel.is_answer() && !own.has(step);
    }
    /// The send that keeps back what comes next to this rank; -1 where none is found.
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
    /// Of the send that it waits for, or of any where that is not known.
    [[nodiscard]] int hold_of(const std::vector<explored_step>& possible, int rank) {
        const explored_call* const call = world_.call_of(rank);
        int found = -1;
        for (std::size_t i = possible.size(); i-- > 0;)
            if (possible[i].rank == rank && possible[i].holds()) {
                if (call != nullptr && possible[i].channel.on == lane_of_answer(call->number))
                    return static_cast<int>(i);
                found = static_cast<int>(i);
            }
        return found;
    }

    explored_world& world_;
    std::vector<rank_order> ranks_;
};

}  // namespace allfold::detail
