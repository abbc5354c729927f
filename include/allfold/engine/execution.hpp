// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "allfold/engine/slice_owner.hpp"
#include "allfold/engine/walker.hpp"

/// @file
/// Runs one call: windows that follow each other through the schedule, several in flight.

namespace allfold::detail {

/// How long a message in one window should be, by default: short enough for a slot of the transport and for the cache.
inline constexpr std::size_t default_window_bytes = std::size_t{256} << 10;
/// Windows in flight: one is folded while the next ones travel.
inline constexpr std::size_t windows_in_flight = 3;

template <communicator Comm, schedule Schedule, class Kernel>
class execution {
  public:
    using context = call<Comm, Schedule, Kernel>;

    /// `make()` returns the context, which is not moved afterwards.
    template <class Make>
    explicit execution(Make make) : all_(make()) {}

    /// Numbers its lanes, once and before the first start: the order of these calls is the same on all ranks.
    void open() {
        const auto& memory = all_.memory;
        const std::size_t largest = memory.blocks.largest();
        windows_ =
            fused() || largest <= memory.window_rows ? 1 : (largest + memory.window_rows - 1) / memory.window_rows;
        first_lane_ = all_.comm.open(all_.agreed, static_cast<unsigned>(windows_));
        finished_ = windows_;
    }

    /// Tells peers again, who remember the latest lanes only, what runs here. Before a start that was not just opened.
    void announce() {
        if constexpr (requires { all_.comm.announce(first_lane_, 1u, all_.agreed); })
            all_.comm.announce(first_lane_, static_cast<unsigned>(windows_), all_.agreed);
    }

    /// May be called again once done.
    void start() {
        next_ = finished_ = 0;
        if (all_.plan.rounds() == 0) {
            copy_input();
            finished_ = windows_;
        } else if (fused()) {
            if constexpr (can_fuse) slices_.begin(all_, first_lane_);
        } else {
            if (windows_ > 1 && others_.empty()) {
                const std::size_t more = std::min(windows_, windows_in_flight) - 1;
                others_ = std::vector<slot_of_window>(more);
            }
            begin_next(first_);
            for (auto& each : others_) begin_next(each);
        }
    }

    /// Does what can be done without waiting; true when the call is complete.
    bool poll() {
        if (finished_ == windows_) return true;
        if constexpr (requires { all_.comm.progress(); }) all_.comm.progress();
        if constexpr (can_fuse)
            if (fused()) {
                if (slices_.advance(all_)) finished_ = 1;
                return finished_ == windows_;
            }
        push(first_);
        for (auto& each : others_) push(each);
        return finished_ == windows_;
    }

    [[nodiscard]] waiting blocked_on() const {
        if constexpr (can_fuse)
            if (fused()) return slices_.blocked_on(all_);
        const slot_of_window* const oldest = oldest_window();
        return oldest ? oldest->walk.blocked_on(all_) : waiting{all_.plan.goal, 0, all_.plan.rounds(), -1};
    }

    /// Throws when a rank that this one waits for is in another call: two roots, say, may wait for each other without a
    /// message that would show it.
    void check() const {
        if constexpr (can_fuse)
            if (fused()) return check(slices_.blocked_on(all_));
        const slot_of_window* const oldest = oldest_window();
        if (oldest == nullptr) return;
        const waiting where = oldest->walk.blocked_on(all_);
        if (where.peer >= 0) return check(where);
        oldest->walk.for_each_borrower(
            all_, [&](int peer) { check({where.what, where.round, where.rounds, peer, where.on}); });
    }

    /// Lets go of what peers have lent.
    void drop() noexcept {
        first_.walk.drop();
        for (auto& each : others_) each.walk.drop();
        if constexpr (can_fuse) slices_.drop();
    }

    /// Keeps its memory from being freed: somebody may still touch it.
    void leave_behind() noexcept {
        first_.walk.leave_behind();
        for (auto& each : others_) each.walk.leave_behind();
    }

    [[nodiscard]] const context& about() const noexcept { return all_; }

  private:
    static constexpr bool can_fuse = Comm::shares_memory && slice_owner_schedule<Schedule>;
    struct nothing {};
    template <class C, class S, class K>
    struct slices_if {
        using type = nothing;
    };
    template <class C, class S, class K>
        requires(C::shares_memory && slice_owner_schedule<S>)
    struct slices_if<C, S, K> {
        using type = slice_owner<C, S, K>;
    };

    struct slot_of_window {
        walker<Comm, Schedule, Kernel> walk;
        std::size_t window = 0;
        bool busy = false;
    };

    [[nodiscard]] const slot_of_window* oldest_window() const noexcept {
        const slot_of_window* oldest = first_.busy ? &first_ : nullptr;
        for (const auto& each : others_)
            if (each.busy && (!oldest || each.window < oldest->window)) oldest = &each;
        return oldest;
    }
    void check(const waiting& where) const {
        if (where.peer < 0) return;
        if (const auto theirs = all_.comm.announced(where.peer, where.on))
            if (theirs->hash() != all_.agreed.hash()) all_.disagree(where.peer, where.on);
    }

    [[nodiscard]] bool fused() const noexcept { return can_fuse && all_.memory.window_rows == 0; }

    void begin_next(slot_of_window& free) {
        free.busy = next_ < windows_;
        if (!free.busy) return;
        free.window = next_++;
        free.walk.begin(all_, free.window, first_lane_ + static_cast<lane>(free.window));
    }

    void push(slot_of_window& each) {
        while (each.busy && each.walk.advance(all_)) {
            ++finished_;
            begin_next(each);
        }
    }

    /// What a lone rank does.
    void copy_input() {
        const std::size_t rows = all_.memory.blocks.total();
        if (all_.plan.goal == collective::exclusive_scan)
            all_.kernel.set_identity(all_.memory.result, rows);
        else if (all_.plan.goal != collective::barrier)
            all_.kernel.copy(all_.memory.input, all_.memory.result, rows);
    }

    context all_;
    std::size_t windows_ = 0;
    std::size_t next_ = 0;
    std::size_t finished_ = 0;
    lane first_lane_ = 0;
    slot_of_window first_;
    std::vector<slot_of_window> others_;
    [[no_unique_address]] typename slices_if<Comm, Schedule, Kernel>::type slices_;
};

}  // namespace allfold::detail
