// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "allfold/transport/detail/per_thread.hpp"

/// @file
/// Operations that a rank has started and not yet finished: every wait makes progress on all of them.

namespace allfold {

/// The operations of one communicator: intrusive lists, without allocation. Two ranks may wait for their operations in
/// different orders, on different communicators; neither hangs, because every wait makes progress on everything that
/// its thread has in flight.
///
/// The thread that last used a communicator makes progress on its operations. A communicator may move to another thread
/// with operations in flight, as long as one thread at a time uses it: the first call there takes them over, after
/// waiting for the call in which the previous thread is making progress on them.
class background {
  public:
    using clock = std::chrono::steady_clock;
    class work;

  private:
    /// A node of a circular list: a piece of work, a communicator, or the position of a traversal.
    template <class T>
    struct hook {
        T* owner = nullptr;
        hook* previous = this;
        hook* next = this;

        explicit hook(T* of = nullptr) noexcept : owner(of) {}
        hook(const hook&) = delete;
        hook& operator=(const hook&) = delete;
        ~hook() { leave(); }
        [[nodiscard]] bool alone() const noexcept { return next == this; }
        void leave() noexcept {
            previous->next = next;
            next->previous = previous;
            previous = next = this;
        }
        void link_before(hook& h) noexcept {
            previous = h.previous;
            next = &h;
            previous->next = h.previous = this;
        }
        /// As the head of a list: appends `h`.
        void push_back(hook& h) noexcept { h.link_before(*this); }
        /// As the head of a list: visits all nodes, or the first `most`, even if nodes leave or join meanwhile.
        template <class Visit>
        void for_each(Visit visit, std::size_t most = static_cast<std::size_t>(-1)) noexcept {
            hook here;  // stands after the one being visited
            for (hook* each = next; each != this && most-- > 0; each = here.next) {
                here.leave();
                here.link_before(*each->next);
                if (each->owner != nullptr) visit(*each->owner);
            }
        }
    };

  public:
    /// An operation. Leaves all lists when it is destroyed; a derived class must call `leave_for_good` first in its
    /// destructor.
    class work {
      public:
        work() = default;
        work(const work&) = delete;
        work& operator=(const work&) = delete;
        virtual ~work() { leave_for_good(); }
        /// Does what can be done without waiting. Keeps any exception until somebody waits for the operation.
        virtual void progress() noexcept = 0;
        /// Lets go of everything that peers have lent, for good: the communicator is broken, or this rank aborts.
        virtual void drop() noexcept = 0;
        /// Lets go of what peers have lent if its communicator turns out to be broken; returns whether it is.
        virtual bool drop_if_broken() noexcept { return false; }
        /// Keeps its memory from being freed: somebody may still access it.
        virtual void leak() noexcept {}
        /// Its communicator is about to end, and must not be used any more.
        virtual void orphan() noexcept {}
        /// Checks whether it waits in vain. Called now and then, for one operation of each communicator.
        virtual void look_around() noexcept {}
        /// The same while its communicator waits for something else, if other ranks may depend on its outcome.
        virtual void look_around_meanwhile() noexcept {}
        /// When it should be done; the end of time if there is no deadline.
        [[nodiscard]] clock::time_point due() const noexcept { return due_; }
        [[nodiscard]] bool is_in_flight() const noexcept { return !in_flight_.alone(); }
        void leave() noexcept {
            if (home_ != nullptr) home_->remove(*this);
        }
        /// To be called first when another thread than before may be using it.
        void take_over() noexcept {
            if (home_ != nullptr) home_->take_over();
        }

      protected:
        void note_unseen(std::exception_ptr failure) noexcept {
            if (home_ != nullptr) home_->note_unseen(std::move(failure));
        }
        void note_seen() noexcept {
            if (home_ != nullptr) home_->note_seen();
        }
        /// Leaves its communicator for good.
        void leave_for_good() noexcept {
            leave();
            known_.leave();
            home_ = nullptr;
        }

        clock::time_point due_ = clock::time_point::max();

      private:
        friend class background;
        background* home_ = nullptr;
        const void* through_ = nullptr;
        bool is_dropped_ = false;  // by drop_elsewhere
        hook<work> in_flight_{this};
        hook<work> known_{this};
    };

    background() = default;
    background(const background&) = delete;
    background& operator=(const background&) = delete;
    ~background() { end(); }

    /// Records the next call of this communicator, and returns the mark that its messages carry: a hash of it and of
    /// all calls before it, so that a difference between ranks is found with the next message, whichever call that
    /// belongs to. Never 0.
    std::uint32_t follow(std::uint32_t call, std::uint32_t first_lane) noexcept {
        note_call(first_lane);
        return chain(call);
    }
    /// The two halves of `follow`, for callers that record the call only once its message is in transit.
    std::uint32_t chain(std::uint32_t call) noexcept {
        history_ = (history_ ^ call) * 0x9e3779b1u;
        history_ ^= history_ >> 15;
        return history_ | 1u;
    }
    void note_call(std::uint32_t first_lane) noexcept { latest_calls_[calls_++ % latest_calls_.size()] = first_lane; }
    /// Calls visit(number, first lane) for the latest calls, oldest first, until it returns true.
    template <class Visit>
    void for_each_call(Visit visit) const {
        const std::uint64_t known = calls_ < latest_calls_.size() ? calls_ : latest_calls_.size();
        for (std::uint64_t number = calls_ - known; number < calls_; ++number)
            if (visit(number + 1, latest_calls_[number % latest_calls_.size()])) return;
    }

    /// What the engine remembers about this communicator; it ends with the communicator.
    class resource {
      public:
        resource() = default;
        resource(const resource&) = delete;
        resource& operator=(const resource&) = delete;
        virtual ~resource() = default;
        /// The communicator has been abandoned, and nobody accesses any more what it has lent.
        virtual void forget_readers() noexcept {}
    };
    std::unique_ptr<resource> kept;
    /// What is known about messages between its ranks, once there are any.
    std::shared_ptr<resource> office;

    // A failure that only the destructor of an operation has found is thrown by the next call on the communicator. If
    // there is none, what runs the rank throws it.

    void note_unseen(std::exception_ptr failure) noexcept {
        if (!has_seen_failure_) unseen_ = std::move(failure);
    }
    /// The program gets an exception which says that the communicator is broken.
    void note_seen() noexcept {
        has_seen_failure_ = true;
        unseen_ = untold_ = nullptr;
    }
    /// An operation in flight has failed, and the program has yet to ask about it.
    void note_untold(std::exception_ptr failure) noexcept {
        if (!has_seen_failure_ && !untold_) untold_ = std::move(failure);
    }
    [[nodiscard]] const std::exception_ptr& untold() const noexcept { return untold_; }
    void throw_unseen() {
        if (unseen_) std::rethrow_exception(std::exchange(unseen_, nullptr));
    }

    /// Whether nothing is in flight.
    [[nodiscard]] bool empty() const noexcept { return in_flight_count_ == 0; }
    /// Whether it knows of an operation that may still be used, finished or not.
    [[nodiscard]] bool knows_any() const noexcept { return !known_.alone(); }
    /// How many operations are in flight.
    [[nodiscard]] std::size_t size() const noexcept { return in_flight_count_; }
    /// Registers `w` to be told when the communicator ends, or the decorator through which `w` uses it.
    void attach(work& w, const void* through = nullptr) noexcept {
        if (w.home_ != nullptr) return;
        w.home_ = this;
        w.through_ = through;
        known_.push_back(w.known_);
    }
    /// To be called on a thread before it has anything in flight: `add` cannot throw where there is no memory.
    static void prepare_this_thread() { static_cast<void>(progress_set::mine()); }
    /// Puts `w` in flight, after all others: older operations make progress first.
    void add(work& w) noexcept {
        attach(w);
        progress_set& mine = progress_set::mine();
        if (progress_set_.load(std::memory_order_relaxed) != &mine) [[unlikely]]
            join(mine);
        if (w.in_flight_.alone() && in_flight_count_++ == 0) mine.count_busy(1);
        w.is_dropped_ = false;
        w.in_flight_.leave();
        in_flight_.push_back(w.in_flight_);
        if (w.due_ != clock::time_point::max()) mine.note_timed();
    }
    /// To be called first when another thread than before uses the communicator.
    [[gnu::always_inline]] void take_over() noexcept {
        progress_set* const theirs = progress_set_.load(std::memory_order_acquire);
        if (theirs == nullptr ? empty() : theirs == progress_set::of_this_thread) return;
        take_over_from(theirs);
    }

    /// Makes progress on what is in flight here. With many operations in flight, here or on all communicators of this
    /// thread together, a pass keeps peers waiting, since they have room for only a few messages: so now and then it
    /// turns to the oldest operations, and yields, since a peer that shares this core would otherwise run only in the
    /// next time slice. Two ranks, 2^16 operations in all: 2 us per operation on 16 communicators, instead of 300 to
    /// 580; 4 to 7 us on one, instead of 50 to 100.
    void progress() noexcept {
        const pass_scope here(*this);
        const bool is_long = in_flight_count_ > pass_batch && in_flight_count_ * busy() > long_pass_work;
        if (is_long) poll_oldest();
        unsigned visited = 0;
        in_flight_.for_each([&](work& w) {
            w.progress();
            if (is_long && ++visited % oldest_interval == 0) {  // or peers would wait for the oldest ones meanwhile
                progress_oldest_of_all();
                std::this_thread::yield();  // to a peer that shares this core
            }
        });
    }
    /// The same for the oldest ones only, as long as some of them finish: the cost does not grow with the number in
    /// flight. The oldest ones are what holds up the others.
    void progress_oldest() noexcept {
        const pass_scope here(*this);
        poll_oldest();
    }
    /// How many times in a row, up to 6, a caller has made progress on everything here to find room, in vain. (0 and 12
    /// instead of 6: the same within 5% with 64 to 2^14 operations in flight, if no rank is late.)
    [[nodiscard]] unsigned failed_attempts() const noexcept { return failed_attempts_; }
    void record_attempt(bool has_failed) noexcept {
        failed_attempts_ = has_failed ? failed_attempts_ + (failed_attempts_ < 6 ? 1 : 0) : 0;
    }
    /// The number of the current pass along the list, from 1; 0 outside of any.
    [[nodiscard]] std::uint64_t pass() const noexcept { return pass_; }
    void drop() noexcept {
        in_flight_.for_each([](work& w) { w.drop(); });
        waited_for_.for_each([](work& w) { w.drop(); });
    }
    /// Lets go of what peers have lent to this thread on other communicators that are broken. To be called now and then
    /// by a rank that aborts and waits for others to let go of its own loans: they may abort such a communicator, and
    /// wait for this rank.
    void drop_elsewhere() noexcept {
        constexpr auto drop_if_broken = [](work& w) { w.is_dropped_ = w.is_dropped_ || w.drop_if_broken(); };
        for_each_of_this_thread([&](background& each) {
            if (&each != this) each.in_flight_.for_each(drop_if_broken);
        });
        if (progress_set* const own = progress_set::of_this_thread; own != nullptr) own->waits.for_each(drop_if_broken);
    }
    /// Records what its rank waits for without having it in flight: only that wait makes progress on it, along with
    /// other work. If that work aborts, on this communicator or another one, `w` must drop its loans as well.
    void note_wait(work& w) noexcept {
        waited_for_.push_back(w.in_flight_);
        if (progress_set* const own = progress_set::of_this_thread; own != nullptr) own->waits.push_back(w.known_);
    }
    void leak() noexcept {
        in_flight_.for_each([](work& w) { w.leak(); });
    }
    void forget_readers() noexcept {
        if (office) office->forget_readers();
    }
    /// To be called by the communicator first of all in its destructor, and by a decorator with itself as `through`:
    /// operations that outlive it must not use it any more.
    void end(const void* through = nullptr) noexcept {
        take_over();
        known_.for_each([&](work& w) {
            if (through != nullptr && w.through_ != through) return;
            w.leave_for_good();
            w.orphan();
        });
        if (progress_set* const mine = progress_set_.load(std::memory_order_relaxed);
            mine != nullptr && through == nullptr) {
            const auto lock = mine->lock();
            mine->remove(*this);
        }
    }

    /// Whether this thread has anything in flight, on any communicator.
    [[nodiscard]] static bool in_flight() noexcept {
        return progress_set::of_this_thread != nullptr && progress_set::of_this_thread->busy() != 0;
    }
    /// How many communicators have something in flight on this thread.
    [[nodiscard]] static std::size_t busy() noexcept {
        return progress_set::of_this_thread == nullptr ? 0
                                                       : static_cast<std::size_t>(progress_set::of_this_thread->busy());
    }
    /// Whether this thread has anything in flight on communicators other than this one.
    [[nodiscard]] bool in_flight_elsewhere() const noexcept {
        return in_flight() && progress_set::of_this_thread->busy() > (empty() ? 0 : 1);
    }
    /// Makes progress on everything that this thread has in flight.
    static void progress_all() noexcept {
        for_each_of_this_thread([](background& each) { each.progress(); });
    }
    /// Looks around, while this communicator waits, for what else this thread has in flight: for one operation of each
    /// communicator; of this one, for each of the oldest in turn.
    void look_around_elsewhere() noexcept {
        for_each_of_this_thread([this](background& each) {
            if (&each != this) return each.look_around();
            constexpr unsigned oldest = 8;
            unsigned left = in_flight_count_ == 0 ? 0 : looks_++ % std::min(in_flight_count_, oldest);
            in_flight_.for_each(
                [&left](work& w) {
                    if (left-- == 0) w.look_around_meanwhile();
                },
                left + 1);
        });
    }
    /// The earliest deadline of the operations in flight on this thread, of those that have not passed yet.
    [[nodiscard]] static clock::time_point next_due() noexcept {
        clock::time_point first = clock::time_point::max(), now{};
        if (!in_flight() || !progress_set::of_this_thread->is_timed) return first;
        for_each_of_this_thread([&](background& each) {
            each.in_flight_.for_each([&](work& w) {
                if (w.due() >= first) return;
                if (now == clock::time_point{}) now = clock::now();
                if (w.due() > now) first = w.due();
            });
        });
        return first;
    }
    /// Changes whenever an operation that may have a deadline is put in flight on this thread.
    [[nodiscard]] static unsigned timed_starts() noexcept {
        return progress_set::of_this_thread == nullptr ? 0 : progress_set::of_this_thread->timed_starts;
    }

    /// Lives as long as a collective runs or makes progress: calls made meanwhile are made by its operator.
    class running {
      public:
        explicit running(background& of) noexcept : of_(of), was_(std::exchange(of.runs_, true)) {}
        running(const running&) = delete;
        running& operator=(const running&) = delete;
        ~running() { of_.runs_ = was_; }

      private:
        background& of_;
        bool was_;
    };
    [[nodiscard, gnu::always_inline]] bool is_running() noexcept {
        take_over();
        return runs_;
    }

    /// Lives while this thread prepares parts of an operation, which may start on the lanes that they open: until then,
    /// other ranks are not to hear that they are only prepared. Parts may be those of a team of the communicator.
    class preparing_parts {
      public:
        preparing_parts() { ++progress_set::mine().preparing_parts; }
        preparing_parts(const preparing_parts&) = delete;
        preparing_parts& operator=(const preparing_parts&) = delete;
        ~preparing_parts() { --progress_set::of_this_thread->preparing_parts; }
    };
    [[nodiscard]] static bool prepares_parts() noexcept {
        return progress_set::of_this_thread != nullptr && progress_set::of_this_thread->preparing_parts != 0;
    }

    class rank_context;

  private:
    /// A spin lock that is hardly ever contended, at half the cost of a mutex: every poll takes it.
    class spin_lock {
      public:
        void lock() noexcept {
            while (taken_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
        }
        void unlock() noexcept { taken_.store(false, std::memory_order_release); }

      private:
        std::atomic<bool> taken_{false};
    };

    /// The communicators on which one thread makes progress. Those with nothing left in flight stay until the next
    /// traversal: an operation is often followed by another.
    class progress_set : public detail::per_thread<progress_set> {
      public:
        bool is_timed = false;  // some operation may have a deadline; for its own thread, like is_traversing_
        unsigned timed_starts = 0;
        unsigned preparing_parts = 0;
        hook<work> waits;  // for what is not in flight, on any communicator

        void note_timed() noexcept {
            is_timed = true;
            ++timed_starts;
        }
        /// Protects the list against threads that take communicators over.
        [[nodiscard]] std::unique_lock<spin_lock> lock() noexcept { return std::unique_lock(spin_lock_); }
        /// How many have something in flight.
        [[nodiscard]] int busy() const noexcept { return busy_ - taken_.load(std::memory_order_relaxed); }
        void count_busy(int more) noexcept {
            busy_ += more;
            if (more < 0 && busy() == 0) is_timed = false;
        }
        void add(background& b) noexcept {
            if (b.progress_set_.load(std::memory_order_relaxed) == this) return;
            members_.push_back(b.member_);
            if (!b.empty()) count_busy(1);
            b.progress_set_.store(this, std::memory_order_release);
        }
        void remove(background& b) noexcept {
            if (!b.empty()) count_busy(-1);
            unlink(b);
        }
        /// Its rank never goes on, and may have stopped within a traversal.
        void abandon() noexcept {
            is_traversing_ = false;
            members_.for_each([](background& b) { b.visits_.store(0, std::memory_order_release); });
        }
        /// Its thread ends.
        void retire() noexcept {
            const auto held = lock();
            members_.for_each([this](background& b) { remove(b); });
        }
        /// Called by another thread, which takes `b` over.
        void hand_over(background& b) noexcept {
            while (!try_hand_over(b)) std::this_thread::yield();
        }
        /// Visits the communicators that have something in flight, and dismisses the others; but not within another
        /// traversal, which may be at one that has become empty. A visit may call functions of the program, which may
        /// wait for a thread that takes any other communicator over.
        template <class Visit>
        void for_each(Visit visit) noexcept {
            const bool is_inside = std::exchange(is_traversing_, true);
            hook<background> here;  // stands after the one being visited, unless that is the last: a lock less
            auto held = lock();
            for (hook<background>*each = members_.next, *after = nullptr; each != &members_; each = after) {
                after = each->next;
                background* const b = each->owner;  // null for the position of an outer traversal
                if (b == nullptr) continue;
                if (b->empty()) {
                    if (!is_inside) unlink(*b);
                    continue;
                }
                const bool is_last = after == &members_;
                if (!is_last) here.link_before(*after);
                b->begin_visit();
                held.unlock();
                visit(*b);
                b->end_visit();
                if (is_last) break;
                held.lock();
                after = here.next;
                here.leave();
            }
            is_traversing_ = is_inside;
        }

      private:
        /// False while its own thread makes progress on it.
        [[nodiscard]] bool try_hand_over(background& b) noexcept {
            const auto held = lock();
            if (b.progress_set_.load(std::memory_order_relaxed) != this) return true;
            if (b.visits_.load(std::memory_order_acquire) != 0) return false;
            if (!b.empty()) taken_.fetch_add(1, std::memory_order_relaxed);
            unlink(b);
            return true;
        }
        static void unlink(background& b) noexcept {
            b.member_.leave();
            b.progress_set_.store(nullptr, std::memory_order_release);
        }

        spin_lock spin_lock_;
        bool is_traversing_ = false;  // like busy_, used by its own thread only
        int busy_ = 0;
        std::atomic<int> taken_{0};  // how many of those other threads have taken over
        hook<background> members_;
    };

    template <class Visit>
    static void for_each_of_this_thread(Visit visit) noexcept {
        if (in_flight()) progress_set::of_this_thread->for_each(visit);
    }

    // Only the thread of its progress set visits it; others only look whether it does.
    void begin_visit() noexcept {
        visits_.store(visits_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    void end_visit() noexcept { visits_.store(visits_.load(std::memory_order_relaxed) - 1, std::memory_order_release); }

    [[gnu::cold]] void take_over_from(progress_set* theirs) noexcept {
        if (theirs != nullptr) theirs->hand_over(*this);
        if (empty()) return;
        progress_set& mine = progress_set::mine();
        const auto lock = mine.lock();
        mine.add(*this);
        mine.note_timed();  // possibly
    }
    [[gnu::cold]] void join(progress_set& mine) noexcept {
        take_over();
        const auto lock = mine.lock();
        mine.add(*this);
    }
    void look_around() noexcept {
        bool is_first = true;
        in_flight_.for_each([&](work& w) {
            if (std::exchange(is_first, false)) w.look_around();
        });
    }
    void remove(work& w) noexcept {
        take_over();
        if (w.in_flight_.alone()) return;
        w.in_flight_.leave();
        if (--in_flight_count_ == 0) progress_set::mine().count_busy(-1);
    }

    /// Numbers a pass. Passes nest: an operator may wait, and thereby make progress on other operations.
    class pass_scope {
      public:
        explicit pass_scope(background& of) noexcept : of_(of), outer_(std::exchange(of.pass_, ++of.passes_)) {}
        pass_scope(const pass_scope&) = delete;
        pass_scope& operator=(const pass_scope&) = delete;
        ~pass_scope() { of_.pass_ = outer_; }

      private:
        background& of_;
        std::uint64_t outer_;
    };
    static void progress_oldest_of_all() noexcept {
        if (in_flight())
            progress_set::of_this_thread->for_each([](background& each) {
                each.pass_ != 0 ? each.poll_oldest() : each.progress_oldest();  // within a pass, continue it
            });
    }
    void poll_oldest() noexcept {
        constexpr int max_turns = 64;
        unsigned before = 0;
        for (int turn = 0; turn < max_turns && in_flight_count_ != before; ++turn) {
            before = in_flight_count_;
            in_flight_.for_each([](work& w) { w.progress(); }, pass_batch);
        }
    }

    /// Xeon (Sapphire Rapids), two ranks on two cores, operations of 8 bytes: 185 ns each with 64 in flight, 205 with
    /// 1024, 750 with 2^14. With 8 or 128 for `pass_batch`, 64 for `oldest_interval`, or 8 for `max_turns`: the same
    /// within 5% up to 1024, and within the scatter (1.3x) at 2^14. Without turning to the oldest ones, 2^14 take up
    /// to 5.7 us each.
    static constexpr unsigned pass_batch = 32, oldest_interval = 256, long_pass_work = 2048;

    std::uint64_t pass_ = 0, passes_ = 0;
    hook<work> in_flight_;
    unsigned in_flight_count_ = 0;  // how many operations that is
    hook<work> waited_for_;
    unsigned failed_attempts_ = 0, looks_ = 0;
    hook<work> known_;
    hook<background> member_{this};
    std::atomic<progress_set*> progress_set_{nullptr};
    std::atomic<int> visits_{0};  // how many traversals are making progress on it, one within the other
    bool runs_ = false;
    std::exception_ptr unseen_, untold_;
    bool has_seen_failure_ = false;
    std::uint32_t history_ = 0;
    std::uint64_t calls_ = 0;
    std::array<std::uint32_t, 16> latest_calls_{};  // by their first lanes
};

/// What one of several ranks that take turns on this thread has in flight: none of them makes progress on another's.
/// Swapped at each turn.
class background::rank_context {
  public:
    rank_context() = default;
    rank_context(const rank_context&) = delete;
    rank_context& operator=(const rank_context&) = delete;
    ~rank_context() { own_->retire(); }
    /// Called when its turn begins, and when it ends.
    void swap() noexcept { std::swap(aside_, progress_set::of_this_thread); }
    /// It never has a turn again, and this is never destroyed.
    void abandon() noexcept { own_->abandon(); }

  private:
    std::unique_ptr<progress_set> own_ = std::make_unique<progress_set>();
    progress_set* aside_ = own_.get();
};

}  // namespace allfold
