// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "allfold/engine/arguments.hpp"
#include "allfold/engine/deadline.hpp"
#include "allfold/engine/detail/memory_in_use.hpp"
#include "allfold/engine/execution.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/engine/task_hooks.hpp"
#include "allfold/error.hpp"
#include "allfold/transport/detail/cause.hpp"

/// @file
/// The two ways to drive an execution: to completion, or in the background.

namespace allfold::detail {

using time_point = std::chrono::steady_clock::time_point;

/// Aborts, from an exception handler: every other rank throws, and nobody touches this rank's memory any more; if that
/// cannot be ensured, the memory is never freed. Does nothing inside an operator: the collective that folds aborts if
/// the exception gets that far.
template <communicator Comm>
void abort_communicator(Comm& comm) noexcept {
    if (comm.background().is_running()) return;
    comm.announce_failure();
    comm.background().drop();
    comm.abandon();
    comm.holds_memory() ? comm.background().leak() : comm.background().forget_readers();
}

/// Whether a rank has failed, as far as this rank can tell.
template <communicator Comm>
bool is_broken(Comm& comm) noexcept {
    if (comm.background().is_running()) return false;
    try {
        comm.progress();
    } catch (...) {
        return true;
    }
    return false;
}

/// Runs something that throws an `error` only if the other ranks learn of it, or if the communicator is broken already.
/// Any other exception is this rank's own, such as `bad_alloc` or one of a copy constructor, and breaks it.
template <communicator Comm, class Work>
decltype(auto) abort_unless_error(Comm& comm, const Work& work) {
    try {
        return work();
    } catch (const error&) {
        throw;
    } catch (...) {
        abort_communicator(comm);
        throw;
    }
}

/// Ranks call operators at different times and different numbers of times: what one of them starts there has no
/// counterpart on the other ranks.
template <communicator Comm>
void require_outside_operator(Comm& comm, const char* what) {
    if (comm.background().is_running())
        throw error(errc::bad_argument, text({what, ": rank ", comm.rank(),
                                              " calls it inside the operator of a collective on this communicator"}));
}

/// How long a rank sleeps on one communicator while it has operations in flight on others, whose messages need not wake
/// it.
inline constexpr std::chrono::milliseconds longest_nap{1};

/// Some work, together with everything this thread has in flight on any communicator. Also counts as done when it is
/// time to look again: when the next operation in flight is due, after a nap, or if that time is no longer right
/// because of what has been started during the wait.
template <bool Naps, class Work>
class work_with_progress {
  public:
    /// The arrival order of messages does not matter here: where it does, in a wait for any of several operations, this
    /// has been noted already (transport/detail/arrival_order.hpp).
    static constexpr bool order_matters = false;

    work_with_progress(background& home, Work& work) noexcept : home_(home), work_(work) {}

    bool poll() {
        if (work_.poll()) return is_done_ = true;
        if (background::in_flight()) {
            background::progress_all();
            is_done_ = work_.has_become_done();
            if (is_done_ || is_plan_outdated()) return true;
        }
        return must_look();
    }
    [[nodiscard]] waiting blocked_on() const { return work_.blocked_on(); }
    void check() const {
        work_.check();
        if (background::in_flight()) home_.look_around_elsewhere();
    }

    [[nodiscard]] bool is_done() const noexcept { return is_done_; }
    /// When a sleeping rank has to wake up; asked by a transport.
    [[nodiscard]] time_point next_look() const noexcept { return next_look_; }
    void plan_next_look() {
        timed_starts_ = background::timed_starts();
        next_look_ = background::in_flight() ? background::next_due() : time_point::max();
        naps_ = Naps && home_.in_flight_elsewhere();
        if (naps_) next_look_ = std::min(next_look_, std::chrono::steady_clock::now() + longest_nap);
    }

  private:
    [[nodiscard]] bool must_look() const {
        return next_look_ != time_point::max() && std::chrono::steady_clock::now() >= next_look_;
    }
    /// Because a function at the end of an operation, or an operator, has started something.
    [[nodiscard]] bool is_plan_outdated() const {
        return background::timed_starts() != timed_starts_ || (Naps && !naps_ && home_.in_flight_elsewhere());
    }

    background& home_;
    Work& work_;
    bool is_done_ = false, naps_ = false;
    unsigned timed_starts_ = 0;
    time_point next_look_ = time_point::max();
};

/// Waits the way `comm` does.
template <communicator Comm, class Work>
void wait_with_progress(Comm& comm, Work& work, std::optional<time_point> until) {
    comm.background().take_over();
    work_with_progress<Comm::sleeps, Work> all(comm.background(), work);
    while (!all.is_done()) {
        all.plan_next_look();
        comm.wait(all, until);
    }
}

/// A call that its rank waits for. If something on which this wait makes progress aborts, the call releases its loans
/// as well: others that abort wait for that.
template <communicator Comm>
class waited_call final : public background::work {
  public:
    waited_call(Comm& comm, execution<Comm>& run) noexcept : comm_(comm), run_(run) {
        comm.background().note_wait(*this);
    }

    bool poll() {
        if (has_dropped_) return false;  // its communicator is broken, which its waiter finds out
        const background::running inside(comm_.background());
        return run_.poll();
    }
    [[nodiscard]] static bool has_become_done() { return false; }
    [[nodiscard]] waiting blocked_on() const { return run_.blocked_on(); }
    void check() const { run_.check(); }

    void progress() noexcept override {}
    void drop() noexcept override {
        run_.drop();
        has_dropped_ = true;
    }
    bool drop_if_broken() noexcept override {
        if (!has_dropped_ && is_broken(comm_)) drop();
        return has_dropped_;
    }

  private:
    Comm& comm_;
    execution<Comm>& run_;
    bool has_dropped_ = false;
};

/// What else is done while a call runs to completion.
enum class while_waiting : std::uint8_t {
    progress_others,  ///< progress on other operations of this thread: if one of them fails, so does this call
    nothing           ///< nothing, so this rank fails only if another one has failed before it reached this call
};

template <communicator Comm>
void run_to_end(Comm& comm, execution<Comm>& run, const std::optional<deadline>& limit,
                while_waiting how = while_waiting::progress_others) {
    require_outside_operator(comm, run.about().goal.name);
    waited_call<Comm> work(comm, run);
    try {
        run.open();
        run.start();
        if (how == while_waiting::progress_others)
            wait_with_progress(comm, work, limit ? limit->from_now() : std::nullopt);
        else
            comm.wait(work, std::nullopt);
    } catch (...) {
        abort_communicator(comm);  // which drops `work` as well
        if (comm.holds_memory()) run.leak();
        throw;
    }
}

/// A call in the background. Its lanes are its own until it ends, so it may be started in a different order on every
/// rank. On a lane, messages of a later start follow those of an earlier one, and each start reads as many as it needs.
/// Derived classes define what it runs; their destructors call `leave_for_good` first.
template <communicator Comm>
class task : public pending {
  public:
    void start() override {
        try {
            begin_run();
        } catch (...) {
            abort_run();
            throw;
        }
        note_start();
        hooks::note_start(*comm_, this);
        progress();
        if (!done()) comm_->background().add(*this);
    }
    void start_prepared() override {
        if (!active_ && std::exchange(failed_alone_, false)) failure_ = nullptr;
        require_startable();
        background::prepare_this_thread();  // it may be another one
        announce_run();
        start();
    }
    void progress() noexcept override {
        if (done() || comm_->background().is_running()) return;  // its operator may wait for something else
        try {
            if (!poll() || !hooks::may_end(*comm_, this, what_)) return require_time();
            hooks::note_end(*comm_, *this);
            finish_run();
            complete();
        } catch (...) {
            fail(std::current_exception());
        }
    }
    void drop() noexcept override {
        if (done()) return;
        drop_run();
        forget_memory();
        due_ = time_point::max();
        failure_ = current_cause().thrown;
        if (!failure_)  // another operation was destroyed by an exception that nobody has caught yet
            failure_ = make_failure(errc::peer_failed, {what_, ": abandoned with its communicator"});
        const background::running inside(comm_->background());  // nothing can be started during an abort
        call_back();
        done_ = true;
    }
    bool drop_if_broken() noexcept override {
        if (done()) return true;
        if (!is_broken(*comm_)) return false;
        drop_run();
        return true;
    }
    void orphan() noexcept override {
        const bool was_in_flight = !done();
        if (was_in_flight) fail_orphaned();
        comm_ = nullptr;
    }
    void look_around() noexcept override {
        constexpr bool can_look = outer_communicator<Comm>;
        unless_it_fails([this] {
            guarded run{*this};
            if constexpr (can_look)
                comm_->look_around(run, std::nullopt);
            else
                check();
        });
    }
    void look_around_meanwhile() noexcept override {
        [[maybe_unused]] guarded run{*this};
        if constexpr (Comm::shares_memory)
            look_around();
        else if constexpr (requires { comm_->look_beside(run); })
            unless_it_fails([&] { comm_->look_beside(run); });
    }
    void check_or_fail() noexcept override {
        if constexpr (Comm::shares_memory) return look_around();
        unless_it_fails([this] { check(); });  // if looking around takes time, only one operation does it
    }

    void progress_all() override {
        if (comm_ == nullptr) return background::progress_all();  // it is done, but others may not be
        comm_->background().take_over();
        hooks::look(*comm_, this, &background::progress_all);
    }
    void wait(erased_work& what) override {
        require_outside_operator(*comm_, what_);
        try {
            wait_for(what);
        } catch (...) {
            fail(std::current_exception());
        }
    }
    /// The exception cannot be examined yet: what peers are told is up to the transport.
    void abandon_unwinding() noexcept override {
        try {
            throw exception_in_flight();
        } catch (const exception_in_flight&) {
            fail(make_failure(errc::peer_failed, {what_, ": its rank exited with an exception"}));
        }
    }

  protected:
    using hooks = task_hooks<Comm>;

    task(Comm& comm, const char* what, const std::optional<deadline>& limit) : comm_(&comm), what_(what) {
        if (limit) limit_ = limit;
        require_outside_operator(comm, what);
        background::prepare_this_thread();
    }
    /// For a call that is already in flight.
    task(Comm& comm, const char* what) noexcept : comm_(&comm), what_(what) {}

    // Hooks for derived classes: what the task runs.

    /// Called before each start but the first.
    virtual void announce_run() = 0;
    virtual void begin_run() = 0;
    /// Makes what progress it can without waiting; true when the run is complete.
    virtual bool poll_run() = 0;
    /// Called once the run is complete.
    virtual void finish_run() = 0;
    /// Releases what peers have lent.
    virtual void drop_run() noexcept = 0;

    void note_start() {
        due_ = limit_ ? limit_->from_now().value_or(time_point::max()) : time_point::max();
        active_ = true;
        done_.store(false, std::memory_order_relaxed);
        if (is_timed()) hooks::note_deadline(*comm_, this);
    }
    /// Whether it has a deadline.
    [[nodiscard]] bool is_timed() const noexcept { return due_ != time_point::max(); }
    /// Throws what the wait throws.
    void wait_for(erased_work& what) {
        struct {
            erased_work& what;
            bool poll() { return what.poll(); }
            bool has_become_done() { return what.poll(); }
            [[nodiscard]] waiting blocked_on() const { return what.blocked_on(); }
            void check() const { what.check(); }
        } asked{what};
        detail::wait_with_progress(*comm_, asked, std::nullopt);
    }
    void require_startable() const {
        const auto refuse = [this](const char* why) { throw error(errc::bad_argument, text({what_, ": ", why})); };
        if (comm_ == nullptr) refuse("the communicator of this prepared operation has ended");
        if (active_)
            throw error(errc::bad_argument,
                        text({what_, ": rank ", comm_->rank(), " starts a prepared operation that is still in flight",
                              whom_it_waits_for(" and waits for rank "), ": wait for it first"}));
        require_outside_operator(*comm_, what_);
        if (failure_) std::rethrow_exception(failure_);  // the communicator is broken for good
    }
    void require_time() {
        if (is_timed()) hooks::require_time(*comm_, *this);
    }
    void complete() noexcept {
        leave();
        forget_memory();
        forget_deadline();
        call_back();
        done_.store(true, std::memory_order_release);  // last: from here on another thread may destroy it
    }
    /// Called in an exception handler.
    void fail(std::exception_ptr failure) noexcept {
        if (done()) return;
        hooks::note_failure(*comm_, *this, failure);
        leave();
        abort_run();
        comm_->background().note_untold(failure);
        failure_ = std::move(failure);
        complete();
    }
    void abort_run() noexcept {
        if (!comm_->background().is_running()) comm_->announce_failure();
        drop_run();
        forget_memory();
        abort_communicator(*comm_);
        if (comm_->holds_memory()) leak();
    }

    /// From here on it takes as long as it takes.
    void forget_deadline() noexcept {
        if (!is_timed()) return;
        hooks::forget_deadline(*comm_, this);
        due_ = time_point::max();
    }
    /// From here on the program may change its memory.
    void forget_memory() noexcept {
        if constexpr (watching_memory<Comm>) comm_->forget_memory(this);
    }

    Comm* comm_;  // null once it has ended
    const char* what_;
    std::optional<deadline> limit_;

  private:
    bool poll() {
        const background::running inside(comm_->background());
        return poll_run();
    }
    struct guarded {
        task& self;
        bool poll() { return self.poll(); }
        [[nodiscard]] waiting blocked_on() const { return self.blocked_on(); }
        void check() const { self.check(); }
    };
    template <class Body>
    void unless_it_fails(Body body) noexcept {
        if (done() || comm_->background().is_running()) return;
        try {
            body();
        } catch (...) {
            fail(std::current_exception());
        }
    }
    void fail_orphaned() noexcept {
        try {
            throw error(errc::bad_argument, text({what_, ": its communicator ended before it was done: rank ",
                                                  comm_->rank(), whom_it_waits_for(" waits for rank ")}));
        } catch (...) {
            fail(std::current_exception());
        }
    }
    [[nodiscard]] std::string whom_it_waits_for(const char* words) const {
        const int peer = done() ? -1 : blocked_on().peer;
        return peer < 0 ? std::string() : text({words, peer});
    }
};

/// A task that runs an execution, and its arguments.
template <communicator Comm>
class execution_task final : public task<Comm> {
  public:
    template <class Make>
    execution_task(Comm& comm, const char* what, std::unique_ptr<bound_arguments> arguments, Make make,
                   const std::optional<deadline>& limit)
        : task<Comm>(comm, what, limit), arguments_(std::move(arguments)), run_(make) {}
    ~execution_task() override { this->leave_for_good(); }

    /// Called before the first start.
    void open() {
        run_.open();
        this->comm_->background().attach(*this, this->comm_);
    }
    void announce_prepared() override { run_.announce_prepared(); }
    /// Releases the arguments; called instead of `open`.
    [[nodiscard]] std::unique_ptr<bound_arguments> give_arguments() noexcept { return std::move(arguments_); }

    /// Sets the arguments of the next start; must not be called while it is in flight.
    void take_arguments(std::unique_ptr<bound_arguments> arguments, const call<Comm>& from) noexcept {
        run_.take_memory(from);
        arguments_ = std::move(arguments);
    }

    void leak() noexcept override {
        run_.leak();
        arguments_->leak();
    }
    [[nodiscard]] waiting blocked_on() const override { return run_.blocked_on(); }
    void check() const override { run_.check(); }

    /// Impossible if values are made from folds that peers still read.
    bool finish_early() override {
        if (this->done() || is_finished_) return true;
        if (!run_.has_result() || run_.about().rows.functions->lower != nullptr || !arguments_->may_finish_early())
            return false;
        arguments_->finish(run_.lowers());
        this->forget_memory();
        this->forget_deadline();
        return is_finished_ = true;
    }
    void detach() noexcept override {
        is_detached_ = true;
        if (this->done()) delete this;
    }
    void progress() noexcept override {
        const bool is_own = is_detached_;  // otherwise another thread may destroy it as soon as it is done
        task<Comm>::progress();
        if (is_own && this->done()) delete this;
    }
    void orphan() noexcept override {
        if (is_finished_ && !this->done()) wait_for_readers();
        task<Comm>::orphan();
        if (is_detached_) delete this;
    }
    [[nodiscard]] const call<Comm>& about() const noexcept { return run_.about(); }

  private:
    void announce_run() override { run_.announce(); }
    void begin_run() override {
        arguments_->begin(false);
        run_.start();
        if constexpr (watching_memory<Comm>) this->comm_->watch_memory(this, blocked_on(), memory());
    }
    bool poll_run() override {
        if constexpr (watching_memory<Comm>) this->comm_->check_memory(this, true);
        const bool is_complete = run_.poll();
        if constexpr (watching_memory<Comm>) this->comm_->note_written(this);
        return is_complete;
    }
    void finish_run() override {
        if (!std::exchange(is_finished_, false)) arguments_->finish(run_.lowers());
    }
    void drop_run() noexcept override { run_.drop(); }
    [[nodiscard]] memory_in_use memory() const {
        memory_in_use all;
        arguments_->add_memory(all, writes());
        return all;
    }
    /// False if this rank's result, if it has one, is its own operand in place, as at the root of a broadcast.
    [[nodiscard]] bool writes() const {
        const call<Comm>& run = run_.about();
        if (!arguments_->where().receives) return false;
        if (!run.memory.in_place || !run.goal.result) return true;
        for (int b = 0; b < run.memory.blocks->blocks(); ++b) {
            const content wanted = run.goal.result(run.schedule.where(), b);
            if (wanted.exists() && wanted != content::of(run.comm.rank(), b)) return true;
        }
        return false;
    }

    /// Called at the end of its communicator.
    void wait_for_readers() noexcept {
        struct {
            execution_task& self;
            bool poll() { return self.done() || self.run_.poll(); }
            [[nodiscard]] bool has_become_done() const { return self.done(); }
            [[nodiscard]] waiting blocked_on() const { return self.run_.blocked_on(); }
            void check() const { self.run_.check(); }
        } readers{*this};
        try {
            detail::wait_with_progress(*this->comm_, readers, std::nullopt);
            if (!this->done()) this->complete();
        } catch (...) {
            this->fail(std::current_exception());
        }
    }

    std::unique_ptr<bound_arguments> arguments_;
    execution<Comm> run_;
    bool is_finished_ = false;  // before peers have read all they were lent
    bool is_detached_ = false;
};

}  // namespace allfold::detail
