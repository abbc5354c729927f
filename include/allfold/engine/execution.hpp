// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "allfold/data/detail/heap_array.hpp"
#include "allfold/engine/fused_pass.hpp"
#include "allfold/engine/short_walk.hpp"
#include "allfold/engine/walker.hpp"

/// @file
/// Runs one call: its windows follow one another through the schedule, several of them in flight.

namespace allfold::detail {

template <communicator Comm>
class execution {
  public:
    using context = call<Comm>;

    /// `make()` returns the context, which is never moved afterwards.
    template <class Make>
    explicit execution(const Make& make) : all_(make()) {}

    /// Opens its lanes. All ranks do this in the same order.
    void open() {
        const operands& memory = all_.memory;
        const std::size_t largest = memory.blocks->largest();
        windows_ =
            memory.fused || largest <= memory.window_rows ? 1 : (largest + memory.window_rows - 1) / memory.window_rows;
        first_lane_ = all_.comm.open(all_.agreed, static_cast<unsigned>(windows_));
        all_.hash = all_.comm.background().follow(all_.agreed.hash(), first_lane_);
        finished_ = windows_;
    }

    /// Called after `open` if it does not start at once.
    void announce_prepared() {
        detail::announce_as_prepared(all_.comm, first_lane_, static_cast<unsigned>(windows_), all_.agreed);
    }
    /// Announces what runs here again, since peers remember the latest lanes only. Called before each start that does
    /// not directly follow `open`.
    void announce() {
        first_lane_ = all_.comm.restart_lane(first_lane_, static_cast<unsigned>(windows_));
        all_.comm.announce(first_lane_, static_cast<unsigned>(windows_), all_.agreed);
        all_.unordered = true;
    }

    /// Takes the memory, and its blocks, for the next start from a call that does not differ in anything that ranks
    /// must agree about.
    void take_memory(const context& from) noexcept {
        all_.rows = from.rows;
        all_.memory = from.memory;
        first_window_.reset();  // its scratch fits the previous blocks
        fused_.reset();
    }

    /// May be called again once it is done.
    void start() {
        next_ = finished_ = 0;
        if (all_.schedule.rounds() == 0) {
            finish_alone();
            finished_ = windows_;
        } else if (all_.memory.fused) {
            if (!fused_) fused_.emplace();
            fused_->begin(all_, first_lane_);
        } else if (is_short_ = windows_ == 1 && short_.begin(all_, first_lane_); !is_short_) {
            make_windows();
            for_each_window(*this, [this](auto& each) { begin_next(each); });
        }
    }

    /// Makes what progress it can without waiting; true when the call is complete.
    [[gnu::noinline]] bool poll() {
        if (finished_ == windows_) return true;
        all_.comm.progress();
        if (all_.memory.fused || is_short_) {
            if (is_short_ ? short_.advance(all_) : fused_->advance(all_)) finished_ = windows_;
            return finished_ == windows_;
        }
        for_each_window(*this, [this](auto& each) { push(each); });
        return finished_ == windows_;
    }

    /// Whether the result is complete, and only loans that peers still read are left. In a fused pass, peers write the
    /// result.
    [[nodiscard]] bool has_result() const noexcept {
        if (finished_ == windows_) return true;
        if (all_.memory.fused || next_ < windows_) return is_short_ && short_.has_result();
        bool has = true;
        for_each_window(*this, [&has](const auto& each) { has = has && (!each.busy || each.walk.has_result()); });
        return has;
    }

    [[nodiscard]] waiting blocked_on() const {
        if (is_short_) return short_.blocked_on(all_);
        if (fused_) return fused_->blocked_on(all_);
        const window_in_flight* const oldest = oldest_window();
        return oldest ? oldest->walk.blocked_on(all_)
                      : waiting{all_.goal.name, 0, all_.schedule.rounds(), -1, first_lane_};
    }

    /// Throws if a rank that this one waits for is in another call: two roots, for example, may wait for each other
    /// without any message that would reveal it.
    void check() const {
        const waiting where = blocked_on();
        if (where.peer >= 0) return check(where);
        const auto check_borrower = [&](int peer) {
            const waiting borrowed{where.what, where.round, where.rounds, peer, where.on};
            check(borrowed);
            all_.comm.check_borrower(borrowed);
        };
        const window_in_flight* const oldest = oldest_window();
        if (is_short_)
            short_.for_each_borrower(all_, check_borrower);
        else if (oldest != nullptr)
            oldest->walk.for_each_borrower(all_, check_borrower);
    }

    /// Releases what peers have lent.
    void drop() noexcept {
        for_each_window(*this, [](auto& each) { each.walk.drop(); });
        short_.drop();
        if (fused_) fused_->drop();
    }

    /// Keeps its memory from being freed: somebody may still touch it.
    void leak() noexcept {
        for_each_window(*this, [](auto& each) { each.walk.leak(); });
    }

    [[nodiscard]] const context& about() const noexcept { return all_; }
    /// Whether the pass that has completed the folds has lowered them as well.
    [[nodiscard]] bool lowers() const noexcept {
        return fused_ && fused_->lowers() && all_.rows.functions->lower != nullptr;
    }

  private:
    /// One window is folded while the next ones are in transit.
    static constexpr std::size_t max_in_flight = 3;

    struct window_in_flight {
        window_in_flight() noexcept {}  // NOLINT: otherwise the whole walker would be zeroed first

        walker<Comm> walk;
        std::size_t window = 0;
        bool busy = false;
    };

    void make_windows() {
        if (first_window_) return;
        first_window_.emplace();
        if (windows_ > 1) more_windows_ = heap_array<window_in_flight>(std::min(windows_, max_in_flight) - 1);
    }
    template <class Self, class Visit>
    static void for_each_window(Self& self, Visit visit) {
        if (self.first_window_) visit(*self.first_window_);
        for (auto& each : self.more_windows_) visit(each);
    }
    [[nodiscard]] const window_in_flight* oldest_window() const noexcept {
        const window_in_flight* oldest = nullptr;
        for_each_window(*this, [&oldest](const auto& each) {
            if (each.busy && (!oldest || each.window < oldest->window)) oldest = &each;
        });
        return oldest;
    }
    void check(const waiting& where) const {
        if (where.peer >= 0) check_call_of(all_.comm, where.peer, where.on, all_.agreed, all_.agreed.hash());
    }

    void begin_next(window_in_flight& free) {
        free.busy = next_ < windows_;
        if (!free.busy) return;
        free.window = next_++;
        free.walk.begin(all_, free.window, first_lane_ + static_cast<lane>(free.window));
    }

    void push(window_in_flight& each) {
        while (each.busy && each.walk.advance(all_)) {
            ++finished_;
            begin_next(each);
        }
    }

    /// For a single rank: its result is what the contract makes of its own operand.
    void finish_alone() {
        const operands& memory = all_.memory;
        const partition& blocks = *memory.blocks;
        for (int b = 0; b < blocks.blocks(); ++b) {
            const content wanted = all_.goal.result ? all_.goal.result(all_.schedule.where(), b) : content{};
            const std::size_t rows = blocks.extent(b);
            if (!wanted.exists() || rows == 0) continue;
            const place to = memory.result.first + blocks.offset(b);
            if (wanted.first != wanted.last)
                all_.rows.copy(memory.input.first + blocks.offset(wanted.item), to, rows);
            else if (all_.rows.functions->set_identity != nullptr)
                all_.rows.set_identity(to, rows);
        }
    }

    context all_;
    std::size_t windows_ = 0;
    std::size_t next_ = 0;
    std::size_t finished_ = 0;
    lane first_lane_ = 0;
    bool is_short_ = false;
    short_walk<Comm> short_;
    std::optional<window_in_flight> first_window_;  // most calls have just one, which then needs no allocation
    heap_array<window_in_flight> more_windows_;
    std::optional<fused_walk<Comm>> fused_;
};

}  // namespace allfold::detail
