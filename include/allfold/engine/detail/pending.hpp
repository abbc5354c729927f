// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>

#include "allfold/error.hpp"
#include "allfold/transport/background.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/arrival_order.hpp"

/// @file
/// What the handle of an operation refers to.

namespace allfold::detail {

/// Type-erased work to wait for.
class erased_work {
  public:
    virtual ~erased_work() = default;
    /// Whether it is done. Makes no progress itself: the waiter does that.
    [[nodiscard]] virtual bool poll() = 0;
    [[nodiscard]] virtual waiting blocked_on() const = 0;
    virtual void check() const = 0;
};

/// A call that runs in the background of its communicator.
class pending : public background::work {
  public:
    /// Called right after construction.
    virtual void start() = 0;
    /// Starts a prepared operation. Throws, without any effect, if it cannot be started.
    virtual void start_prepared() = 0;
    /// Waits briefly for what it needs, if that is likely to arrive soon.
    virtual void wait_briefly() noexcept {}
    /// Makes progress on everything this thread has in flight.
    virtual void progress_all() = 0;
    /// Takes over all communicators that it uses.
    virtual void take_over_all() noexcept { this->take_over(); }
    /// Called if it is prepared rather than started at once: other ranks may make a different call meanwhile, or the
    /// same one without preparing it, and must find out.
    virtual void announce_prepared() {}
    /// Whether this thread may take over its communicator.
    [[nodiscard]] virtual bool may_be_taken_over() const noexcept { return true; }
    /// Waits for `work` the way this communicator waits.
    virtual void wait(erased_work& work) = 0;
    /// Makes every other rank throw, because an exception has destroyed the handle.
    virtual void abandon_unwinding() noexcept = 0;
    [[nodiscard]] virtual waiting blocked_on() const = 0;
    /// Whether the result is available, even if peers still read this rank's memory. If so, it has been written to
    /// where the caller wants it.
    virtual bool finish_early() { return done(); }
    /// Lets it delete itself when it is done.
    virtual void detach() noexcept {}
    /// Whether its handle may release it.
    [[nodiscard]] virtual bool is_releasable() const noexcept { return false; }
    /// Cancels it if it has not had any effect yet; true if so, and then it is done.
    [[nodiscard]] virtual bool cancel() noexcept { return false; }
    /// Throws if waiting is in vain.
    virtual void check() const = 0;
    /// The same for an operation on a communicator other than the one that waits: if waiting is in vain, the operation
    /// fails instead.
    virtual void check_or_fail() noexcept = 0;

    /// Written last, since another thread may be making progress on it.
    [[nodiscard]] bool done() const noexcept { return done_.load(std::memory_order_acquire); }
    /// Started, and its completion has not been reported yet.
    [[nodiscard]] bool is_active() const noexcept { return active_; }
    /// Reports completion: throws what went wrong in it, if anything.
    void report() {
        active_ = false;
        if (!failure_) [[likely]]
            return;
        if (!failed_alone_) note_seen();
        std::rethrow_exception(failure_);
    }
    /// Its handle is destroyed instead.
    void end_unreported() noexcept {
        if (active_ && failure_ && !failed_alone_ && !is_releasable()) note_unseen(failure_);
    }
    /// To be asked after each test that has found it unfinished: whether to check, as a wait does now and then, if it
    /// ever can be done.
    [[nodiscard]] bool must_look_around() noexcept { return ++vain_tests_ % tests_between_checks == 0; }
    [[nodiscard]] bool has_failed() const noexcept { return failure_ != nullptr; }

    /// Called when the operation ends, with what went wrong.
    class continuation {
      public:
        virtual ~continuation() = default;
        virtual void call(const std::exception_ptr& failure) = 0;
        std::unique_ptr<continuation> next;
    };
    /// Called at once if it is done.
    void then(std::unique_ptr<continuation> last) {
        note_question_of_order();
        look_as_observed(true);
        if (!done()) note_callback();
        at_end(std::move(last));
    }
    /// The same for a function that is not the program's, so the program cannot tell when it is called.
    void at_end(std::unique_ptr<continuation> last) {
        if (!done()) this->take_over();
        if (done()) return last->call(failure_);
        std::unique_ptr<continuation>* place = &then_;
        while (*place) place = &(*place)->next;
        *place = std::move(last);
    }
    /// False while functions are called at its end: one that waited for this operation would wait forever.
    [[nodiscard]] bool is_waitable() const noexcept { return !calls_back_; }
    void require_waitable() const {
        if (!is_waitable()) throw error(errc::bad_argument, "wait: a continuation must not wait for its own operation");
    }

  protected:
    [[nodiscard]] bool has_continuation() const noexcept { return then_ != nullptr; }
    /// Called just before it is done. If it has not failed yet, an exception from one of the functions becomes its
    /// failure.
    void call_back() noexcept {
        if (!then_) [[likely]]
            return;
        calls_back_ = true;
        while (const std::unique_ptr<continuation> first = std::move(then_)) {
            then_ = std::move(first->next);
            try {
                first->call(failure_);
            } catch (...) {
                if (failure_) continue;
                failure_ = std::current_exception();
                failed_alone_ = true;
            }
        }
        calls_back_ = false;
    }

    std::atomic<bool> done_{true};
    bool active_ = false;
    bool calls_back_ = false;
    std::exception_ptr failure_;
    bool failed_alone_ = false;  // and the communicator is intact

  private:
    static constexpr unsigned tests_between_checks = 1024;

    std::uint16_t vain_tests_ = 0;
    std::unique_ptr<continuation> then_;
};

/// Calls a function of the caller's, which may take the failure as its argument.
template <class F>
class continuation_with final : public pending::continuation {
  public:
    explicit continuation_with(F f) : f_(std::move(f)) {}
    void call(const std::exception_ptr& failure) override {
        note_question_of_order();  // f can see what has arrived before it and what has not
        if constexpr (std::invocable<F&, std::exception_ptr>)
            f_(failure);
        else if (!failure)
            f_();
    }

  private:
    F f_;
};

/// Waits for a single operation.
class until_done final : public erased_work {
  public:
    explicit until_done(pending& work) noexcept : work_(work) {}
    [[nodiscard]] bool poll() override { return work_.done(); }
    [[nodiscard]] waiting blocked_on() const override { return work_.blocked_on(); }
    void check() const override { work_.check(); }

  private:
    pending& work_;
};

/// An operation that was already done when it was started: a single shared object, since it has no state of its own.
class completed_operation final : public pending {
  public:
    completed_operation() { active_ = true; }
    ~completed_operation() override { leave_for_good(); }
    [[nodiscard]] static completed_operation& instance() {
        static completed_operation& one = *new completed_operation;  // threads may outlive static objects
        return one;
    }
    void start() override {}
    void start_prepared() override {}
    void progress() noexcept override {}
    void drop() noexcept override {}
    void progress_all() override {}
    void wait(erased_work&) override {}
    void abandon_unwinding() noexcept override {}
    [[nodiscard]] waiting blocked_on() const override { return {}; }
    void check() const override {}
    void check_or_fail() noexcept override {}
};
struct already_done {};

/// An operation of which nothing has been asked except that it complete, and which stores only what that takes. As soon
/// as more is asked of it, it becomes the full call it would otherwise have been.
class operation_note {
  public:
    operation_note() = default;
    operation_note(const operation_note&) = delete;
    operation_note& operator=(const operation_note&) = delete;
    virtual ~operation_note() = default;
    /// Written last, since another thread may be making progress on it.
    [[nodiscard]] bool done() const noexcept { return state_.load(std::memory_order_acquire) == state::done; }
    /// Waits briefly for it, if it is likely to end soon.
    virtual void wait_briefly() noexcept = 0;
    virtual void take_over() noexcept = 0;
    /// Turns it into a full call and returns that; null if it is done. Changes nothing if there is no memory for that.
    [[nodiscard]] virtual std::unique_ptr<pending> promote() = 0;
    /// Called in a handler, if it cannot be promoted and is about to be destroyed: makes every other rank throw.
    virtual void abandon() noexcept = 0;

  protected:
    enum class state : std::uint8_t { waits, is_call, done, lost };
    std::atomic<state> state_{state::waits};
};

}  // namespace allfold::detail
