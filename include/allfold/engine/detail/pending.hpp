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
/// What stands behind the handle of an operation.

namespace allfold::detail {

/// Something to wait for, of any type.
class erased_work {
  public:
    virtual ~erased_work() = default;
    /// Whether it is done; it is pushed on by whoever waits.
    [[nodiscard]] virtual bool poll() = 0;
    [[nodiscard]] virtual waiting blocked_on() const = 0;
    virtual void check() const = 0;
};

/// A call that runs in the background of its communicator.
class pending : public background::work {
  public:
    /// Just after it was made.
    virtual void start() = 0;
    /// Throws, and does nothing, where that makes no sense.
    virtual void start_prepared() = 0;
    /// Waits a moment for what it needs, if it is likely to come so soon.
    virtual void hurry() noexcept {}
    /// Pushes on all that this thread has in flight.
    virtual void push() = 0;
    /// Waits as this communicator waits.
    virtual void wait(erased_work& work) = 0;
    /// Makes every other rank throw, because an exception has destroyed the handle.
    virtual void abandon_unwinding() noexcept = 0;
    [[nodiscard]] virtual waiting blocked_on() const = 0;
    /// Whether the result is there, whoever still reads this rank's memory: then it is written where the caller wants
    /// it.
    virtual bool finish_early() { return done(); }
    /// Ends by itself when it is done.
    virtual void detach() noexcept {}
    /// Whether its handle may let go of it.
    [[nodiscard]] virtual bool is_releasable() const noexcept { return false; }
    /// True if it ends now, and nothing has come of it.
    [[nodiscard]] virtual bool cancel() noexcept { return false; }
    /// Throws when waiting is in vain.
    virtual void check() const = 0;
    /// The same for an operation with whose communicator nobody waits: it fails if it waits in vain.
    virtual void check_aside() noexcept = 0;

    /// The last that is written: another thread may have pushed it on.
    [[nodiscard]] bool done() const noexcept { return done_.load(std::memory_order_acquire); }
    /// Started, and nobody has asked yet whether it is done.
    [[nodiscard]] bool is_active() const noexcept { return active_; }
    /// Tells that it is done, or throws what went wrong in it.
    void tell() {
        active_ = false;
        if (failure_) std::rethrow_exception(failure_);
    }
    [[nodiscard]] bool has_failed() const noexcept { return failure_ != nullptr; }

    /// Something to be called at its end, with what went wrong.
    class continuation {
      public:
        virtual ~continuation() = default;
        virtual void call(const std::exception_ptr& failure) = 0;
        std::unique_ptr<continuation> next;
    };
    /// At once if it is done.
    void then(std::unique_ptr<continuation> last) {
        note_question_of_order();
        look_as_observed(true);
        if (!done()) note_callback();
        at_end(std::move(last));
    }
    /// The same of what is no function of the program, which does not see when that is called.
    void at_end(std::unique_ptr<continuation> last) {
        if (done()) return last->call(failure_);
        std::unique_ptr<continuation>* place = &then_;
        while (*place) place = &(*place)->next;
        *place = std::move(last);
    }
    /// A function that waits for the operation at whose end it is called would wait for ever.
    [[nodiscard]] bool is_waitable() const noexcept { return !calls_back_; }
    void require_waitable() const {
        if (!is_waitable())
            throw error(errc::bad_argument,
                        "wait: a function that an operation calls at its end waits for that operation");
    }

  protected:
    [[nodiscard]] bool has_continuation() const noexcept { return then_ != nullptr; }
    /// Just before it is done. What a function throws becomes what went wrong.
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
    bool failed_alone_ = false;  // and the communicator is sound

  private:
    std::unique_ptr<continuation> then_;
};

/// Calls a function of the caller's, which may want to know what went wrong.
template <class F>
class continuation_with final : public pending::continuation {
  public:
    explicit continuation_with(F f) : f_(std::move(f)) {}
    void call(const std::exception_ptr& failure) override {
        note_question_of_order();  // what comes before it, and what after
        if constexpr (std::invocable<F&, std::exception_ptr>)
            f_(failure);
        else if (!failure)
            f_();
    }

  private:
    F f_;
};

/// Waits for one.
class until_done final : public erased_work {
  public:
    explicit until_done(pending& work) noexcept : work_(work) {}
    [[nodiscard]] bool poll() override { return work_.done(); }
    [[nodiscard]] waiting blocked_on() const override { return work_.blocked_on(); }
    void check() const override { work_.check(); }

  private:
    pending& work_;
};

/// What an operation is that was done when it was started: one for all, since there is nothing to know of it.
class ended final : public pending {
  public:
    ended() { active_ = true; }
    ~ended() override { leave_for_good(); }
    [[nodiscard]] static ended& instance() {
        static ended& one = *new ended;  // threads may outlive the objects of the program
        return one;
    }
    void start() override {}
    void start_prepared() override {}
    void progress() noexcept override {}
    void drop() noexcept override {}
    void push() override {}
    void wait(erased_work&) override {}
    void abandon_unwinding() noexcept override {}
    [[nodiscard]] waiting blocked_on() const override { return {}; }
    void check() const override {}
    void check_aside() noexcept override {}
};
struct ended_at_once {};

/// An operation of which nobody has asked more than that it end, and that keeps no more than that takes. Whoever asks
/// for more makes it the call that it would have been.
class noted {
  public:
    noted() = default;
    noted(const noted&) = delete;
    noted& operator=(const noted&) = delete;
    virtual ~noted() = default;
    /// The last that is written: another thread may have pushed it on.
    [[nodiscard]] bool done() const noexcept { return state_.load(std::memory_order_acquire) == state::done; }
    /// Waits a moment for it, if it is likely to end so soon.
    virtual void hurry() noexcept = 0;
    /// The call that it is from now on; null if it is done.
    [[nodiscard]] virtual std::unique_ptr<pending> grow() noexcept = 0;

  protected:
    enum class state : std::uint8_t { waits, is_call, done };
    std::atomic<state> state_{state::waits};
};

}  // namespace allfold::detail
