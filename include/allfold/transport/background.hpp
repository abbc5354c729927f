// SPDX-License-Identifier: BSL-1.0
#pragma once

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
};

}  // namespace allfold
