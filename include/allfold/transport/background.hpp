// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "allfold/transport/detail/per_thread.hpp"

/// @file
/// Work that a rank has started and not yet finished: whoever waits pushes all of it on.

namespace allfold {

/// The operations of one communicator: lists, without allocation. Two ranks may wait for their operations in different
/// orders, on different communicators; neither hangs because every wait makes progress on all that its thread has in
/// flight.
///
/// Operations are pushed on by the thread that used their communicator last. A communicator may go to another thread
/// with operations in flight, as long as one thread at a time uses it: the first call there takes them over, and waits
/// for the one in which the thread that had them is pushing them on.
class background {
  public:
    using clock = std::chrono::steady_clock;
    class work;

  private:
    /// A place in a circular list: of a piece of work, of a communicator, or of whoever walks along the list.
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
        /// As the head of a list: puts `h` after all that are there.
        void push_back(hook& h) noexcept { h.stand_before(*this); }
        /// As the head of a list: visits all, or the first `most`, whoever leaves or joins meanwhile.
        template <class Visit>
        void for_each(Visit visit, std::size_t most = static_cast<std::size_t>(-1)) noexcept {
            hook here;  // stands after the one that is visited
            for (hook* each = next; each != this && most-- > 0; each = here.next) {
                here.leave();
                here.stand_before(*each->next);
                if (each->owner != nullptr) visit(*each->owner);
            }
        }

      private:
        void stand_before(hook& h) noexcept {
            previous = h.previous;
            next = &h;
            previous->next = h.previous = this;
        }
    };

  public:
    /// An operation. Leaves all lists when destroyed; a class that is made of it must `leave_for_good` first in its
    /// destructor.
    class work {
      public:
        work() = default;
        work(const work&) = delete;
        work& operator=(const work&) = delete;
        virtual ~work() { leave_for_good(); }
        /// Does what can be done without waiting. Keeps what it throws to itself until somebody waits for it.
        virtual void progress() noexcept = 0;
        /// Lets go of all that peers have lent, for good: the communicator is broken, or this rank gives up.
        virtual void drop() noexcept = 0;
        /// Keeps its memory from being freed: somebody may still touch it.
        virtual void leave_behind() noexcept {}
        /// Its communicator is about to end: it must not be used any more.
        virtual void orphan() noexcept {}
        /// Looks whether it waits in vain. Asked now and then, of one operation of each communicator.
        virtual void look_around() noexcept {}
        /// When it should be done; the end of time where nobody cares.
        [[nodiscard]] clock::time_point due() const noexcept { return due_; }
        void leave() noexcept {
            if (home_ != nullptr) home_->remove(*this);
        }

      protected:
        /// From its communicator, for good.
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
        hook<work> in_flight_{this};
        hook<work> known_{this};
    };

    background() = default;
    background(const background&) = delete;
    background& operator=(const background&) = delete;
    ~background() { end(); }

    /// Notes the next call of this communicator, and returns what its messages bear: a hash of it and of all calls
    /// before it, so that a difference between ranks is found with the next message, whichever call that belongs to.
    /// Never 0.
    std::uint32_t follow(std::uint32_t call, std::uint32_t first_lane) noexcept {
        note_call(first_lane);
        return chain(call);
    }
    /// Its two halves, for those who note the call once its message is on its way.
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

    /// What the engine remembers of this communicator; it ends with it.
    class keepsake {
      public:
        keepsake() = default;
        keepsake(const keepsake&) = delete;
        keepsake& operator=(const keepsake&) = delete;
        virtual ~keepsake() = default;
    };
    std::unique_ptr<keepsake> kept;
    /// What is known of messages between its ranks, once there are some.
    std::shared_ptr<keepsake> office;

    /// Nothing in flight.
    [[nodiscard]] bool empty() const noexcept { return flying_ == 0; }
    /// Whether an operation is known here that may be used still, done or not.
    [[nodiscard]] bool knows_any() const noexcept { return !known_.alone(); }
    /// How many operations are in flight.
    [[nodiscard]] std::size_t size() const noexcept { return flying_; }
    /// Tells `w` when the communicator ends, or the decorator of it through which `w` uses it.
    void attach(work& w, const void* through = nullptr) noexcept {
        if (w.home_ != nullptr) return;
        w.home_ = this;
        w.through_ = through;
        known_.push_back(w.known_);
    }
    /// Puts `w` in flight, after all that are there: older operations are pushed on first.
    void add(work& w) noexcept {
        attach(w);
        fleet& mine = fleet::mine();
        if (pushed_on_by_.load(std::memory_order_relaxed) != &mine) [[unlikely]]
            join(mine);
        if (w.in_flight_.alone() && flying_++ == 0) mine.count_busy(1);
        w.in_flight_.leave();
        in_flight_.push_back(w.in_flight_);
        if (w.due_ != clock::time_point::max()) mine.is_timed = true;
    }
    /// Whoever uses the communicator from another thread than before calls this first.
    void take_over() noexcept {
        fleet* const theirs = pushed_on_by_.load(std::memory_order_acquire);
        if (theirs == nullptr ? empty() : theirs == fleet::of_this_thread) return;
        take_over_from(theirs);
    }

    /// Pushes on what is in flight here. Where that is much, here or on all communicators of this thread together, a
    /// pass keeps peers waiting, who have few places for messages: so now and then it turns to the oldest ones, and
    /// gives its turn away, for a peer that shares this processor would come in the next time slice only. Two ranks, in
    /// all 2^16 operations on 16 communicators: 2 us each, where they took 300 to 580; on one 4 to 7, and 50 to 100.
    void progress() noexcept {
        const passing here(*this);
        const bool is_long = flying_ > few && flying_ * busy() > many;
        if (is_long) push_oldest();
        unsigned visited = 0;
        in_flight_.for_each([&](work& w) {
            w.progress();
            if (is_long && ++visited % often == 0) {  // or peers would wait for the oldest ones meanwhile
                progress_oldest_of_all();
                std::this_thread::yield();  // to one of them that shares this processor
            }
        });
    }
    /// The same of the oldest ones only, as long as some of them end: what it costs does not grow with what is in
    /// flight. They are in the way of the others.
    void progress_oldest() noexcept {
        const passing here(*this);
        push_oldest();
    }
    /// How many times in a row, up to 6, somebody has pushed all of it on to make room, and found none. (0 and 12: the
    /// same within 5% with 64 to 2^14 operations in flight, where no rank is late.)
    [[nodiscard]] unsigned vain_attempts() const noexcept { return vain_; }
    void note_attempt(bool was_in_vain) noexcept { vain_ = was_in_vain ? vain_ + (vain_ < 6 ? 1 : 0) : 0; }
    /// Numbers the passes along the list, from 1; 0 outside.
    [[nodiscard]] std::uint64_t pass() const noexcept { return pass_; }
    void drop() noexcept {
        in_flight_.for_each([](work& w) { w.drop(); });
        waited_for_.for_each([](work& w) { w.drop(); });
    }
    /// Of what its rank waits for without having it in flight: nobody pushes it on but that wait, which pushes on other
    /// work too. When that gives up, `w` is to drop as well.
    void note_wait(work& w) noexcept { waited_for_.push_back(w.in_flight_); }
    void leave_behind() noexcept {
        in_flight_.for_each([](work& w) { w.leave_behind(); });
    }
    /// The communicator calls this first of all in its destructor, and a decorator with itself as `through`: operations
    /// that outlive it must not use it any more.
    void end(const void* through = nullptr) noexcept {
        take_over();
        known_.for_each([&](work& w) {
            if (through != nullptr && w.through_ != through) return;
            w.leave_for_good();
            w.orphan();
        });
        if (fleet* const mine = pushed_on_by_.load(std::memory_order_relaxed); mine != nullptr && through == nullptr) {
            const auto lock = mine->lock();
            mine->strike(*this);
        }
    }

    /// Whether this thread has anything in flight, on any communicator.
    [[nodiscard]] static bool in_flight() noexcept {
        return fleet::of_this_thread != nullptr && fleet::of_this_thread->busy() != 0;
    }
    /// How many communicators have something in flight on this thread.
    [[nodiscard]] static std::size_t busy() noexcept {
        return fleet::of_this_thread == nullptr ? 0 : static_cast<std::size_t>(fleet::of_this_thread->busy());
    }
    /// Whether it has on other communicators than this one.
    [[nodiscard]] bool in_flight_elsewhere() const noexcept {
        return in_flight() && fleet::of_this_thread->busy() > (empty() ? 0 : 1);
    }
    /// Pushes on all that this thread has in flight.
    static void progress_all() noexcept {
        for_each_of_this_thread([](background& each) { each.progress(); });
    }
    /// Looks around on all communicators on which this thread has something in flight, but for this one.
    void look_around_elsewhere() noexcept {
        for_each_of_this_thread([this](background& each) {
            if (&each != this) each.look_around();
        });
    }
    /// When the first of all operations that this thread has in flight is due, of those that are not yet.
    [[nodiscard]] static clock::time_point next_due() noexcept {
        clock::time_point first = clock::time_point::max(), now{};
        if (!in_flight() || !fleet::of_this_thread->is_timed) return first;
        for_each_of_this_thread([&](background& each) {
            each.in_flight_.for_each([&](work& w) {
                if (w.due() >= first) return;
                if (now == clock::time_point{}) now = clock::now();
                if (w.due() > now) first = w.due();
            });
        });
        return first;
    }

    /// Lives as long as somebody runs, or pushes on, a collective: what is called meanwhile is called by its operator.
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
    [[nodiscard]] bool is_running() noexcept {
        take_over();
        return runs_;
    }

    class of_one_rank;

  private:
    /// A mutex that is all but never contended, at half the price: every poll goes through it.
    class turnstile {
      public:
        void lock() noexcept {
            while (taken_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
        }
        void unlock() noexcept { taken_.store(false, std::memory_order_release); }

      private:
        std::atomic<bool> taken_{false};
    };

    /// The communicators that one thread pushes on. Those that have nothing in flight any more stay until it walks
    /// along them: an operation is often followed by the next one.
    class fleet : public detail::per_thread<fleet> {
      public:
        bool is_timed = false;  // some operation may be due some time; for its own thread, as pushes_on_

        /// Against a thread that takes a communicator over. Nothing to do while this one pushes on.
        [[nodiscard]] std::unique_lock<turnstile> lock() noexcept {
            return pushes_on_ ? std::unique_lock<turnstile>() : std::unique_lock(turnstile_);
        }
        /// How many have something in flight.
        [[nodiscard]] int busy() const noexcept { return busy_ - taken_.load(std::memory_order_relaxed); }
        void count_busy(int more) noexcept {
            busy_ += more;
            if (more < 0 && busy() == 0) is_timed = false;
        }
        void enlist(background& b) noexcept {
            if (b.pushed_on_by_.load(std::memory_order_relaxed) == this) return;
            members_.push_back(b.member_);
            if (!b.empty()) count_busy(1);
            b.pushed_on_by_.store(this, std::memory_order_release);
        }
        void strike(background& b) noexcept {
            if (!b.empty()) count_busy(-1);
            dismiss(b);
        }
        /// Its thread ends.
        void retire() noexcept {
            const auto held = lock();
            members_.for_each([this](background& b) { strike(b); });
        }
        /// For another thread.
        void hand_over(background& b) noexcept {
            const std::lock_guard lock(turnstile_);
            if (b.pushed_on_by_.load(std::memory_order_relaxed) != this) return;
            if (!b.empty()) taken_.fetch_add(1, std::memory_order_relaxed);
            dismiss(b);
        }
        /// In the midst of another walk a communicator that has become empty may be the one that is being walked along.
        template <class Visit>
        void for_each(Visit visit) noexcept {
            const auto held = lock();
            const bool is_inside = std::exchange(pushes_on_, true);
            members_.for_each([&](background& b) {
                if (!b.empty())
                    visit(b);
                else if (!is_inside)
                    dismiss(b);
            });
            pushes_on_ = is_inside;
        }

      private:
        static void dismiss(background& b) noexcept {
            b.member_.leave();
            b.pushed_on_by_.store(nullptr, std::memory_order_release);
        }

        turnstile turnstile_;
        bool pushes_on_ = false;  // as busy_, looked at by its own thread only
        int busy_ = 0;
        std::atomic<int> taken_{0};  // how many of those other threads have taken over
        hook<background> members_;
    };

    template <class Visit>
    static void for_each_of_this_thread(Visit visit) noexcept {
        if (in_flight()) fleet::of_this_thread->for_each(visit);
    }

    [[gnu::cold]] void take_over_from(fleet* theirs) noexcept {
        if (theirs != nullptr) theirs->hand_over(*this);
        if (empty()) return;
        fleet& mine = fleet::mine();
        const auto lock = mine.lock();
        mine.enlist(*this);
        mine.is_timed = true;  // perhaps
    }
    [[gnu::cold]] void join(fleet& mine) noexcept {
        take_over();
        const auto lock = mine.lock();
        mine.enlist(*this);
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
        if (--flying_ == 0) fleet::mine().count_busy(-1);
    }

    /// An operator may wait, and push on others.
    class passing {
      public:
        explicit passing(background& of) noexcept : of_(of), outer_(std::exchange(of.pass_, ++of.passes_)) {}
        passing(const passing&) = delete;
        passing& operator=(const passing&) = delete;
        ~passing() { of_.pass_ = outer_; }

      private:
        background& of_;
        std::uint64_t outer_;
    };
    static void progress_oldest_of_all() noexcept {
        if (in_flight())
            fleet::of_this_thread->for_each([](background& each) {
                each.pass_ != 0 ? each.push_oldest() : each.progress_oldest();  // in the midst of a pass it goes on
            });
    }
    void push_oldest() noexcept {
        constexpr int most_turns = 64;
        unsigned before = 0;
        for (int turn = 0; turn < most_turns && flying_ != before; ++turn) {
            before = flying_;
            in_flight_.for_each([](work& w) { w.progress(); }, few);
        }
    }

    /// A Xeon (Sapphire Rapids), two ranks on two cores, operations of 8 bytes: 185 ns each with 64 in flight, 205 with
    /// 1024, 750 with 2^14. With 8 or 128 for `few`, 64 for `often`, 8 for `most_turns`: the same within 5% up to 1024,
    /// within the scatter of 2^14 (1.3). Without the turns to the oldest ones 2^14 take up to 5.7 us each.
    static constexpr unsigned few = 32, often = 256, many = 2048;

    std::uint64_t pass_ = 0, passes_ = 0;
    hook<work> in_flight_;
    unsigned flying_ = 0;  // how many those are
    hook<work> waited_for_;
    unsigned vain_ = 0;
    hook<work> known_;
    hook<background> member_{this};
    std::atomic<fleet*> pushed_on_by_{nullptr};
    bool runs_ = false;
    std::uint32_t history_ = 0;
    std::uint64_t calls_ = 0;
    std::array<std::uint32_t, 16> latest_calls_{};  // their first lanes
};

/// What one of several ranks that run on this thread by turns has in flight: none of them pushes on what is another's.
/// Changed at each turn.
class background::of_one_rank {
  public:
    of_one_rank() = default;
    of_one_rank(const of_one_rank&) = delete;
    of_one_rank& operator=(const of_one_rank&) = delete;
    ~of_one_rank() { own_->retire(); }
    /// Called when its turn begins, and when it ends.
    void change_places() noexcept { std::swap(aside_, fleet::of_this_thread); }

  private:
    std::unique_ptr<fleet> own_ = std::make_unique<fleet>();
    fleet* aside_ = own_.get();
};

}  // namespace allfold
