// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "allfold/engine/arguments.hpp"
#include "allfold/engine/execution.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/error.hpp"

/// @file
/// The two ways to drive an execution: to its end at once, or in the background.

namespace allfold::detail {

/// In a handler: nobody may touch this rank's memory any more, and every other rank throws.
template <communicator Comm>
void give_up(Comm& comm) noexcept {
    comm.background().drop();
    comm.abandon();
    if (comm.holds_memory()) comm.background().leave_behind();
}

/// Runs to the end. Other operations of the communicator are pushed on meanwhile.
template <communicator Comm>
void run_to_end(Comm& comm, execution<Comm>& run, std::optional<std::chrono::steady_clock::time_point> until) {
    struct {
        Comm& comm;
        execution<Comm>& run;
        bool poll() {
            const bool done = run.poll();
            if (!done && !comm.background().empty()) comm.background().progress();
            return done;
        }
        [[nodiscard]] waiting blocked_on() const { return run.blocked_on(); }
        void check() const { run.check(); }
    } work{comm, run};
    try {
        run.start();
        comm.wait(work, until);
    } catch (...) {
        run.drop();
        give_up(comm);
        if (comm.holds_memory()) run.leave_behind();
        throw;
    }
}

/// A call in the background. `Arguments` owns what the call needs besides: `begin()` before each start, `finish()`
/// after.
template <communicator Comm>
class task final : public pending {
  public:
    template <class Make>
    task(Comm& comm, std::unique_ptr<bound_arguments> arguments, Make make, std::optional<time_point> until)
        : comm_(comm), arguments_(std::move(arguments)), run_(make) {
        deadline_ = until;
    }

    void start() override {
        arguments_->begin();
        run_.open();
        run_.start();
        done_ = false;
        failure_ = nullptr;
        comm_.background().add(*this);
        progress();
    }
    void progress() noexcept override {
        if (done_) return;
        try {
            if (!run_.poll()) return require_time();
            arguments_->finish(run_.lowers());
            done_ = true;
            leave();
        } catch (...) {
            abandon();
        }
    }
    void drop() noexcept override {
        run_.drop();
        failure_ = std::current_exception();
        if (!failure_)  // another operation was destroyed by an exception that nobody has caught yet
            failure_ = std::make_exception_ptr(
                error(errc::peer_failed, text({blocked_on().what, ": abandoned with its communicator"})));
        done_ = true;
    }
    void leave_behind() noexcept override {
        run_.leave_behind();
        arguments_->leave_behind();
    }
    void push() override { comm_.background().progress(); }
    void wait(erased_work& what, std::optional<time_point> until) override {
        waited_for_ = true;
        try {
            comm_.wait(what, until);
        } catch (...) {
            abandon();
            throw;
        }
    }
    void abandon() noexcept override {
        drop();
        give_up(comm_);
        leave();
    }
    [[nodiscard]] waiting blocked_on() const override { return run_.blocked_on(); }
    void check() const override { run_.check(); }

  private:
    /// For who asks `done()` again and again; a wait of the transport's looks at the deadline itself, and tells more.
    void require_time() const {
        if (deadline_ && !waited_for_ && std::chrono::steady_clock::now() >= *deadline_)
            throw error(errc::timeout, text({run_.blocked_on().what, ": the deadline of rank ", comm_.rank(),
                                             " passed before it was done"}));
    }

    Comm& comm_;
    std::unique_ptr<bound_arguments> arguments_;
    execution<Comm> run_;
    bool waited_for_ = false;
};

}  // namespace allfold::detail
