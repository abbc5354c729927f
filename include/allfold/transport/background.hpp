// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstdint>

/// @file
/// Work that a rank has started and not yet finished: whoever waits on a communicator pushes all of it on.

namespace allfold {

/// A list, without allocation, of the operations in flight on one communicator. Two ranks may wait for their operations
/// in different orders; neither hangs because every wait makes progress on all of them.
class background {
  public:
    /// An operation in flight. Leaves the list when destroyed.
    class work {
      public:
        work() = default;
        work(const work&) = delete;
        work& operator=(const work&) = delete;
        virtual ~work() { leave(); }
        /// Does what can be done without waiting. Keeps what it throws to itself until somebody waits for it.
        virtual void progress() noexcept = 0;
        /// Lets go of all that peers have lent, for good: the communicator is broken, or this rank gives up.
        virtual void drop() noexcept = 0;
        /// Keeps its memory from being freed: somebody may still touch it.
        virtual void leave_behind() noexcept {}
        void leave() noexcept {
            if (previous_) previous_->next_ = next_;
            if (next_) next_->previous_ = previous_;
            previous_ = next_ = nullptr;
        }

      private:
        friend class background;
        work* previous_ = nullptr;
        work* next_ = nullptr;
    };

    background() = default;
    background(const background&) = delete;
    background& operator=(const background&) = delete;

    [[nodiscard]] bool empty() const noexcept { return head_.next_ == nullptr; }

    /// Notes the next call of this communicator, and returns what its messages bear: a hash of it and of all calls before
    /// it, so that a difference between ranks is found with the next message, whichever call that belongs to. Never 0.
    std::uint32_t follow(std::uint32_t call, std::uint32_t first_lane) noexcept {
        history_ = (history_ ^ call) * 0x9e3779b1u;
        history_ ^= history_ >> 15;
        latest_[calls_++ % latest_.size()] = first_lane;
        return history_ | 1u;
    }
    /// Calls visit(number, first lane) for the latest calls, oldest first, until it returns true.
    template <class Visit>
    void for_each_call(Visit visit) const {
        const std::uint64_t known = calls_ < latest_.size() ? calls_ : latest_.size();
        for (std::uint64_t number = calls_ - known; number < calls_; ++number)
            if (visit(number + 1, latest_[number % latest_.size()])) return;
    }

    /// Adds `w` behind all that are there: older operations are pushed on first.
    void add(work& w) noexcept {
        work* last = &head_;
        while (last->next_) last = last->next_;
        last->next_ = &w;
        w.previous_ = last;
    }
    void progress() noexcept {
        for_each([](work& w) { w.progress(); });
    }
    void drop() noexcept {
        for_each([](work& w) { w.drop(); });
    }
    void leave_behind() noexcept {
        for_each([](work& w) { w.leave_behind(); });
    }

  private:
    struct sentinel final : work {
        void progress() noexcept override {}
        void drop() noexcept override {}
    };

    template <class Visit>
    void for_each(Visit visit) noexcept {
        for (work* w = head_.next_; w != nullptr;) {
            work* const next = w->next_;  // w may leave the list
            visit(*w);
            w = next;
        }
    }
    sentinel head_;
    std::uint32_t history_ = 0;
    std::uint64_t calls_ = 0;
    std::array<std::uint32_t, 16> latest_{};  // their first lanes
};

}  // namespace allfold
