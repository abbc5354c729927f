// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <atomic>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "allfold/engine/operation.hpp"
#include "allfold/engine/task.hpp"
#include "allfold/error.hpp"
#include "allfold/transport/background.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/cause.hpp"

/// @file
/// Collectives that make progress while the thread that wants them computes.

namespace allfold {

/// A thread that takes over a communicator: it starts collectives on it and makes progress on them. Without such a
/// thread, they make progress only in calls that wait or test.
///
///     progress_thread helper(comm);
///     operation sums = helper.start([&](auto& comm) { return all_reduce.start(comm, gradients, sum()); });
///     ...  // compute meanwhile
///     sums.wait();
///
/// While it exists, nobody else may use the communicator; nor, if it is the first thread's of a process in a hierarchy,
/// the teams of that hierarchy. Every rank may have one or not. A start costs a message to the thread, and another one
/// at the end: some microseconds each, and up to 1 ms for a start while the thread sleeps waiting for other ranks. It
/// needs a core of its own to be of use.
///
/// Over MPI it needs MPI_THREAD_SERIALIZED if no other thread calls MPI meanwhile, otherwise MPI_THREAD_MULTIPLE.
template <communicator Comm>
class progress_thread {
  public:
    /// Throws if the transport forbids calls from several threads.
    explicit progress_thread(Comm& comm) : comm_(comm), exceptions_(std::uncaught_exceptions()) {
        comm.require_any_thread_allowed();
        thread_ = std::thread([this] { serve(); });
    }
    progress_thread(const progress_thread&) = delete;
    progress_thread& operator=(const progress_thread&) = delete;
    /// Returns when everything that was started is done, also what functions at the end of it start here meanwhile. If
    /// it is destroyed by an exception with anything in flight, every other rank throws instead.
    ~progress_thread() {
        finish();
        change([this] { is_ending_ = true; });
        thread_.join();
        relays_.end();
    }

    /// Has the thread call f(comm), after everything that was started before, and returns at once. If f returns an
    /// operation, the thread makes progress on it, and the result is done when that operation is; otherwise it is done
    /// when f has returned. What f throws, or what goes wrong in its operation, is thrown to the waiter. The result
    /// belongs to the thread that calls `start`, like any other operation; it cannot be a prepared one. If an exception
    /// destroys the result, other ranks learn of that once f has returned: an f that may wait for long should start
    /// that and return the operation instead.
    template <class F>
    [[nodiscard]] operation start(F f) {
        constexpr bool takes_it = std::invocable<F&, Comm&>;
        static_assert(takes_it,
                      "allfold: what a progress thread calls must take the communicator by reference, as in "
                      "[&](auto& comm) { return all_reduce.start(comm, x, sum{}); }");
        if constexpr (takes_it) {
            require_other_thread();
            auto made = std::make_unique<relay_of<F>>(*this, std::move(f));
            made->start();
            return operation(std::move(made));
        } else {
            return {};
        }
    }

  private:
    /// What the owner waits for, while the thread makes progress on the operation it stands for.
    class relay : public detail::pending {
      public:
        explicit relay(progress_thread& helper) noexcept : helper_(helper) {}
        /// Called on the thread.
        [[nodiscard]] virtual operation begin(Comm& comm) = 0;
        void end(std::exception_ptr failure) noexcept {
            outcome_ = std::move(failure);
            helper_.change([this] { has_ended_.store(true, std::memory_order_release); });
        }

        void start() override {
            this->active_ = true;
            this->done_ = false;
            background::prepare_this_thread();
            helper_.relays_.add(*this);
            helper_.change([this] { helper_.fresh_.push_back(this); });
        }
        void start_prepared() override {
            throw error(errc::bad_argument, "start: what a progress thread runs cannot be started again");
        }
        void progress() noexcept override {
            if (this->done() || !has_ended_.load(std::memory_order_acquire)) return;
            this->leave();
            this->failure_ = outcome_;
            this->call_back();
            this->done_ = true;
        }
        void orphan() noexcept override { progress(); }
        void drop() noexcept override {}
        void progress_all() override {
            if (!this->done()) {  // otherwise it may be gone
                helper_.require_other_thread();
                helper_.relays_.take_over();
            }
            background::progress_all();
        }
        void wait(detail::erased_work& what) override {
            helper_.require_other_thread();
            helper_.wait_for(what);
        }
        void take_over_all() noexcept override {
            if (may_be_taken_over()) this->take_over();
        }
        /// Not by the progress thread itself, whose wait for its own result is refused.
        [[nodiscard]] bool may_be_taken_over() const noexcept override {
            return std::this_thread::get_id() != helper_.thread_.get_id();
        }
        void abandon_unwinding() noexcept override { helper_.abandon(*this); }
        [[nodiscard]] waiting blocked_on() const override { return {"progress_thread"}; }
        void check() const override {}
        void check_or_fail() noexcept override {}

      private:
        progress_thread& helper_;
        std::atomic<bool> has_ended_ = false;
        std::exception_ptr outcome_;
    };
    template <class F>
    class relay_of final : public relay {
      public:
        relay_of(progress_thread& helper, F f) : relay(helper), f_(std::move(f)) {}
        ~relay_of() override { this->leave_for_good(); }

      private:
        [[nodiscard]] operation begin(Comm& comm) override {
            using result = std::invoke_result_t<F&, Comm&>;
            constexpr bool is_operation = std::same_as<result, operation>;
            static_assert(is_operation || std::is_void_v<result>,
                          "allfold: what a progress thread calls must return an operation, or nothing");
            if constexpr (is_operation) {
                return f_(comm);
            } else {
                f_(comm);
                return {};
            }
        }
        F f_;
    };

    void require_other_thread() const {
        if (std::this_thread::get_id() == thread_.get_id())
            throw error(
                errc::bad_argument,
                "progress_thread: its own thread would wait for itself: start this on the communicator passed to "
                "the function");
    }

    /// Notifies the other thread of a change.
    template <class Change>
    void change(Change what) {
        {
            const std::lock_guard lock(mutex_);
            what();
            changes_.fetch_add(1, std::memory_order_relaxed);
        }
        news_.notify_all();
    }
    /// Sleeps until something has changed since `seen`, or for a nap if this thread has other operations in flight.
    void sleep(unsigned seen, bool naps) {
        std::unique_lock lock(mutex_);
        const auto is_new = [&] { return changes_.load(std::memory_order_relaxed) != seen; };
        if (naps)
            news_.wait_for(lock, detail::longest_nap, is_new);
        else
            news_.wait(lock, is_new);
    }

    // The owner's side.

    void wait_for(detail::erased_work& what) {
        for (;;) {
            const unsigned seen = changes_.load(std::memory_order_acquire);
            relays_.take_over();  // each time: the other thread may have attached a function to a result
            background::progress_all();
            if (what.poll()) return;
            what.check();  // an operation elsewhere may wait in vain
            if (what.poll()) return;
            sleep(seen, relays_.in_flight_elsewhere());
        }
    }
    /// Called first by the destructor.
    void finish() noexcept {
        relays_.take_over();
        relays_.progress();
        if (!relays_.empty() && std::uncaught_exceptions() > exceptions_) change([this] { is_abandoned_ = true; });
        for (;;) {
            const unsigned seen = changes_.load(std::memory_order_acquire);
            relays_.take_over();  // as above
            background::progress_all();
            if (relays_.empty()) return;
            sleep(seen, relays_.in_flight_elsewhere());
        }
    }
    /// Called when the memory of an operation is about to go away.
    void abandon(relay& lost) noexcept {
        change([this] { is_abandoned_ = true; });
        while (!lost.done()) {
            const unsigned seen = changes_.load(std::memory_order_acquire);
            relays_.take_over();
            lost.progress();
            if (!lost.done()) sleep(seen, false);
        }
    }

    // The thread's side.

    void serve() noexcept {
        background elsewhere;  // something in flight there: a wait for messages is only a nap
        idle_work nothing;
        elsewhere.add(nothing);
        for (;;) {
            const unsigned seen = changes_.load(std::memory_order_acquire);
            const orders now = take_orders();
            if (now.abandon) abort_all();
            for (relay* const each : now.begin) now.abandon ? refuse(*each) : begin(*each);
            if (!in_flight_.empty())
                wait_for_news(seen);
            else if (now.begin.empty() && now.end)
                return;
            else
                sleep(seen, false);
        }
    }
    struct idle_work final : background::work {
        void progress() noexcept override {}
        void drop() noexcept override {}
    };

    struct orders {
        std::vector<relay*> begin;
        bool end, abandon;
    };
    [[nodiscard]] orders take_orders() {
        const std::lock_guard lock(mutex_);
        return {std::exchange(fresh_, {}), is_ending_, std::exchange(is_abandoned_, false)};
    }
    void begin(relay& what) {
        std::exception_ptr failure;
        try {
            in_flight_relays_.reserve(in_flight_.size() + 1);  // nothing may fail once it is in flight
            in_flight_.reserve(in_flight_.size() + 1);
            operation own = what.begin(comm_);
            if (detail::handles::active(own) != nullptr) {
                in_flight_.push_back(std::move(own));
                in_flight_relays_.push_back(&what);
                return;
            }
        } catch (...) {
            failure = std::current_exception();
        }
        what.end(std::move(failure));  // last, and outside the handler: from here on only the owner uses the exception
    }
    static void refuse(relay& what) noexcept {
        what.end(detail::make_failure(errc::peer_failed, {"progress_thread: abandoned with its communicator"}));
    }
    /// Makes progress until one of them is done, or something else has changed.
    void wait_for_news(unsigned seen) {
        class until_news final : public detail::erased_work {
          public:
            until_news(progress_thread& of, detail::pending& first, unsigned seen) noexcept
                : of_(of), any_(of.in_flight_, first), seen_(seen) {}
            [[nodiscard]] bool poll() override {
                return of_.changes_.load(std::memory_order_acquire) != seen_ || any_.poll();
            }
            [[nodiscard]] waiting blocked_on() const override { return any_.blocked_on(); }
            void check() const override { any_.check(); }

          private:
            progress_thread& of_;
            detail::until_any<std::vector<operation>> any_;
            unsigned seen_;
        };
        detail::pending* const first = detail::handles::progress_all(in_flight_);
        until_news news(*this, *first, seen);
        if (!news.poll()) first->wait(news);
        report_done();
    }
    void report_done() noexcept {
        for (std::size_t i = 0; i < in_flight_.size();) {
            if (!detail::handles::active(in_flight_[i])->done()) {
                ++i;
                continue;
            }
            const auto at = static_cast<std::ptrdiff_t>(i);
            std::exception_ptr failure;
            try {
                in_flight_[i].wait();
            } catch (...) {
                failure = std::current_exception();
            }
            relay* const of = in_flight_relays_[i];
            in_flight_relays_.erase(in_flight_relays_.begin() + at);
            in_flight_.erase(in_flight_.begin() + at);
            of->end(std::move(failure));  // last: what it uses may be gone after that
        }
    }
    void abort_all() noexcept {
        try {
            throw detail::exception_in_flight();  // on the owner's thread
        } catch (...) {
            detail::abort_communicator(comm_);
        }
    }

    Comm& comm_;
    int exceptions_;
    std::mutex mutex_;
    std::condition_variable news_;
    std::atomic<unsigned> changes_ = 0;
    std::vector<relay*> fresh_;  // to begin
    bool is_ending_ = false, is_abandoned_ = false;
    std::vector<operation> in_flight_;  // owned by the thread, which waits for them
    std::vector<relay*> in_flight_relays_;
    background relays_;
    std::thread thread_;
};

}  // namespace allfold
