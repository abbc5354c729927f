// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "allfold/engine/detail/pending.hpp"
#include "allfold/error.hpp"
#include "allfold/transport/background.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/arrival_order.hpp"

/// @file
/// Operations in flight.

namespace allfold {

namespace detail {

struct handles;

}  // namespace detail

/// A collective in flight, as returned by `start`. The data passed to it must stay where it is, and must not be written
/// (nor, in the case of the result, read) until the operation is done. Any call that waits, on any communicator, makes
/// progress on all operations of its thread. Destroying an operation waits for it, unless it is destroyed by an
/// exception: then every other rank throws. A failure that destroying it finds is not reported there: that of a
/// collective is by the next use of the communicator, or by `run`; that of a message which leaves the communicator as
/// it was (`truncated`, `mismatch`) is lost, so wait for a receive whose data matters.
///
/// One thread at a time uses a communicator and its operations; they may move to another thread together, even in
/// flight.
///
/// An operation that is still in flight when its communicator ends is abandoned: every other rank throws, and `done`
/// and `wait` throw `bad_argument`.
class operation {
  public:
    operation() = default;
    explicit operation(std::unique_ptr<detail::pending> work)
        : work_(std::move(work)), exceptions_(std::uncaught_exceptions()) {}
    explicit operation(detail::already_done) noexcept : must_report_(true) {}
    explicit operation(std::unique_ptr<detail::operation_note> note) noexcept
        : note_(std::move(note)), exceptions_(std::uncaught_exceptions()) {}
    operation(operation&& other) noexcept
        : work_(std::move(other.work_)),
          note_(std::move(other.note_)),
          exceptions_(other.exceptions_),
          must_report_(std::exchange(other.must_report_, false)) {}
    operation& operator=(operation&& other) noexcept {
        if (this == &other) return *this;
        if (holds_any()) [[unlikely]]
            finish();
        work_ = std::move(other.work_);
        note_ = std::move(other.note_);
        exceptions_ = other.exceptions_;
        must_report_ = std::exchange(other.must_report_, false);
        return *this;
    }
    ~operation() {
        if (holds_any()) [[unlikely]]
            finish();
    }

    /// Makes progress without waiting; true once the collective is complete. Throws if the collective has failed, as it
    /// does when a rank that it needs has returned, which is looked for in some of the tests only.
    [[nodiscard]] bool done() {
        detail::note_question_of_order();
        look_at_note();
        must_report_ = false;
        if (!work_) return true;
        if (!work_->done()) work_->progress_all();
        if (!work_->done() && work_->must_look_around()) work_->look_around();
        if (!work_->done()) return false;
        work_->report();
        return true;
    }
    /// Returns when the collective is complete. Throws if the collective has failed.
    void wait() {
        wait_after([] {});
    }

    /// Cancels a receive that no message has been matched with, or a send of which nothing has left this rank: the
    /// operation is then done, the destination buffer of a receive is untouched, and the function returns true.
    /// Otherwise nothing changes, and the operation completes; a collective always does.
    bool cancel() {
        detail::note_question_of_order();
        look_at_note();
        return work_ && work_->cancel();
    }

    /// Releases a message in flight, without waiting: it completes in the background, its outcome is not reported, and
    /// until then its data must stay where it is. The communicator must not end before that; if you need to know when
    /// that is, wait instead. Throws `bad_argument`, and changes nothing, for a collective in flight: all ranks would
    /// need its data, and nobody would know for how long.
    void release() {
        detail::note_question_of_order();
        look_at_note();
        must_report_ = false;
        if (!work_) return;
        if (!work_->done()) work_->progress_all();  // nobody else does until it is detached
        if (!work_->done()) {
            if (!work_->is_releasable())
                throw error(errc::bad_argument, "release: a collective is in flight: wait for it");
            detail::note_question_at_the_end();
            work_.release()->detach();
        }
        work_.reset();
    }

    /// Has f called once at the end of the collective (of this start of it, if it is a prepared one): as f() if it
    /// completes, or as f(std::exception_ptr), which is also called after a failure, and receives null otherwise. f is
    /// called at once if there is nothing to wait for; otherwise by the first call on this thread that finds the
    /// collective complete, before `done` or `wait` reports it. f may use the result, and may start and wait for other
    /// operations, on this communicator too; but it must not wait for, move or destroy this one, nor end its
    /// communicator (or progress thread), which is calling it. Functions are called in the order in which they were
    /// passed; an exception from one of them is thrown by `wait`.
    template <class F>
        requires std::invocable<F&> || std::invocable<F&, std::exception_ptr>
    void then(F f) {
        auto last = std::make_unique<detail::continuation_with<F>>(std::move(f));
        look_at_note();
        work_ ? work_->then(std::move(last)) : last->call(nullptr);
    }

  private:
    friend class persistent;
    friend struct detail::handles;

    /// Calls `before()` if it has to wait for longer than a moment.
    template <class Before>
    [[gnu::always_inline]] void wait_after(Before&& before) {
        look_at_note(true);
        must_report_ = false;
        if (!work_) return;
        reach_end(before);
        work_->report();
    }
    template <class Before>
    [[gnu::always_inline]] void reach_end(Before&& before) {
        if (!work_->done() && work_->may_be_taken_over())
            work_->take_over();  // or another thread might be calling a function at its end
        if (!work_->done()) {
            work_->require_waitable();
            work_->wait_briefly();
        }
        if (!work_->done()) {
            before();
            detail::until_done all(*work_);
            work_->wait(all);
        }
    }
    [[nodiscard]] bool holds_any() const noexcept { return work_ != nullptr || note_ != nullptr; }
    /// Called first by everything that needs more than a note provides.
    [[gnu::always_inline]] void look_at_note(bool waits = false) {
        if (!note_) return;
        if (note_->done()) [[likely]] {
            must_report_ = true;
            return note_.reset();
        }
        end_note(waits);
    }
    [[gnu::noinline]] void end_note(bool waits) {
        if (waits && !note_->done()) note_->wait_briefly();
        if (!note_) return;  // a function called at the end of another operation has resolved it
        if (!note_->done()) work_ = note_->promote();
        if (!work_) must_report_ = true;
        note_.reset();
    }
    [[gnu::noinline]] void finish() noexcept {
        try {
            look_at_note();
        } catch (...) {
            note_->abandon();
            return note_.reset();
        }
        if (!work_ || (work_->done() && !work_->is_active())) [[likely]]
            return;  // it has been reported
        const bool is_unwinding = std::uncaught_exceptions() > exceptions_;
        try {
            if (!is_unwinding)
                reach_end([] {});
            else if (!work_->done())
                work_->abandon_unwinding();
        } catch (...) {  // see above for who reports it
        }
        if (work_->done()) {
            if (!is_unwinding) work_->end_unreported();
            return;
        }
        detail::pending* const left = work_.release();  // nobody can wait inside an operator: it ends later
        if (left->is_releasable()) left->detach();
    }

    std::unique_ptr<detail::pending> work_;
    std::unique_ptr<detail::operation_note> note_;  // while nothing more is needed
    int exceptions_ = 0;
    bool must_report_ = false;  // it was done at the start, and this is not reported yet
};

/// A collective that is prepared once and can be started any number of times, as returned by `prepare`: arguments are
/// checked, the schedule is chosen and memory is allocated only once. All ranks must prepare in the same order, but may
/// start their prepared operations in different orders.
class persistent : private operation {
  public:
    using operation::cancel;
    using operation::done;
    using operation::operation;
    using operation::release;
    using operation::then;
    using operation::wait;
    /// Starts it; every rank must do so. Throws `bad_argument`, and sends nothing, if it is empty, if its communicator
    /// has ended, or if the previous start has been neither waited for nor found done.
    void start() {
        if (!work_) throw error(errc::bad_argument, "start: the prepared operation is empty");
        work_->start_prepared();
    }
    /// Starts it and waits for it.
    void operator()() {
        start();
        wait();
    }

  private:
    friend struct detail::handles;
};

namespace detail {

template <class T>
concept handle = std::same_as<T, operation> || std::same_as<T, persistent>;
template <class R>
concept range_of_handles = std::forward_iterator<decltype(std::ranges::begin(std::declval<R&>()))> &&
                           handle<std::remove_cvref_t<decltype(*std::ranges::begin(std::declval<R&>()))>>;

/// What waiting for several operations needs to know about each.
struct handles {
    /// Takes the operation out of its handle, to be waited for elsewhere.
    template <handle Handle>
    [[nodiscard]] static std::unique_ptr<pending> take(Handle&& h) {
        h.look_at_note();
        return std::move(h.work_);
    }
    /// Null if there is nothing to wait for: the handle is empty, was never started, or its end has been reported.
    template <handle Handle>
    [[nodiscard]] static pending* active(Handle& h) {
        h.look_at_note();
        if (h.must_report_) return &completed_operation::instance();
        return h.work_ && h.work_->is_active() ? h.work_.get() : nullptr;
    }
    /// Reports the end of one that is done.
    template <handle Handle>
    static void report(Handle& h) {
        h.must_report_ = false;
        if (h.work_) h.work_->report();
    }
    /// Those still to be done, if somebody wants to know.
    template <range_of_handles Range>
    [[nodiscard]] static std::vector<const void*> unfinished(Range& all) {
        std::vector<const void*> found;
        if (!is_order_observed()) [[likely]]
            return found;
        for (auto& each : all)
            if (const pending* const work = active(each); work != nullptr && !work->done()) found.push_back(work);
        return found;
    }
    template <range_of_handles Range>
    [[nodiscard]] static pending* first_active(Range& all) {
        for (auto& each : all)
            if (pending* const work = active(each)) return work;
        return nullptr;
    }
    /// Waits for one of several; `before()` is called if that takes longer than a moment.
    template <handle Handle, class Before>
    static void wait(Handle& h, Before& before) {
        h.wait_after(before);
    }
    /// Must be called for all operations that are waited for together: their communicators may come from another
    /// thread.
    template <handle Handle>
    static void take_over(Handle& h) noexcept {
        if (h.work_ && !h.work_->done())
            h.work_->take_over_all();
        else if (h.note_)
            h.note_->take_over();
    }
    template <range_of_handles Range>
    static void take_over_all(Range& all) noexcept {
        for (auto& each : all) take_over(each);
    }
    /// Makes progress on all operations of this thread, if one of these is to be waited for, and returns the first such
    /// one. An operation that was done when it was started makes no progress on others.
    template <range_of_handles Range>
    [[nodiscard]] static pending* progress_all(Range& all) {
        note_question_of_order();
        const question_about those(handles::unfinished(all));
        pending *first = nullptr, *unfinished = nullptr;
        for (auto& each : all) {
            pending* const work = active(each);
            if (first == nullptr) first = work;
            if (work != nullptr && !work->done()) {
                unfinished = work;
                break;
            }
        }
        if (first != nullptr) (unfinished != nullptr ? unfinished : first)->progress_all();
        if (unfinished != nullptr && !unfinished->done()) {
            take_over_all(all);  // for the next time
            if (unfinished->must_look_around()) look_around_all(all);
        }
        return first;
    }
    /// Those that can never be done fail.
    template <range_of_handles Range>
    static void look_around_all(Range& all) {
        for (auto& each : all)
            if (pending* const work = active(each); work != nullptr && !work->done()) work->look_around();
    }
    /// An active operation that can be waited for; if there is none, throws as waiting for the first one does.
    template <range_of_handles Range>
    [[nodiscard]] static pending& waitable(Range& all) {
        for (auto& each : all)
            if (pending* const work = active(each); work != nullptr && work->is_waitable()) return *work;
        pending& none = *first_active(all);
        none.require_waitable();
        return none;
    }
    /// Reports the first operation that is done, and returns its index; the number of operations if none is.
    template <range_of_handles Range>
    [[nodiscard]] static std::size_t report_first(Range& all) {
        std::size_t index = 0;
        for (auto& each : all) {
            if (const pending* const work = active(each); work && work->done()) {
                report(each);
                break;
            }
            ++index;
        }
        return index;
    }
    /// Reports all operations that are done, and returns their indices. If any of them has failed, reports that one
    /// first, and throws.
    template <range_of_handles Range>
    [[nodiscard]] static std::vector<std::size_t> report_done(Range& all) {
        const auto for_each_done = [&](auto visit) {
            for (std::size_t i = 0; auto& each : all) {
                if (const pending* const work = active(each); work && work->done()) visit(each, i);
                ++i;
            }
        };
        for_each_done([](auto& each, std::size_t) {
            if (active(each)->has_failed()) report(each);
        });
        std::vector<std::size_t> indices;
        for_each_done([&](auto& each, std::size_t i) {
            report(each);
            indices.push_back(i);
        });
        return indices;
    }
};

/// Waits for the first of several operations.
template <range_of_handles Range>
class until_any final : public erased_work {
  public:
    /// `waiting_with`: the operation whose communicator waits.
    until_any(Range& all, pending& waiting_with) noexcept : all_(all), first_(waiting_with) {}
    [[nodiscard]] bool poll() override {
        for (auto& each : all_)
            if (const pending* const work = handles::active(each); work && work->done()) return true;
        return false;
    }
    [[nodiscard]] waiting blocked_on() const override { return first_.blocked_on(); }
    /// If waiting for one of them is in vain, that one fails.
    void check() const override {
        for (auto& each : all_)
            if (pending* const work = handles::active(each); work && !work->done()) {
                if (work == &first_)
                    work->check();
                else
                    work->check_or_fail();
            }
    }

  private:
    Range& all_;
    pending& first_;
};

template <range_of_handles Range>
void wait_for(until_any<Range>& any, Range& operations) {
    handles::take_over_all(operations);
    handles::waitable(operations).wait(any);
}

/// Has `visit(wait)` call wait(operation) for several operations, each of which is waited for even if others fail, and
/// throws the first exception in the end.
template <class Visit>
void wait_for_each(Visit visit) {
    std::exception_ptr failure;
    bool are_ours = false;
    const auto take_over_all = [&] {
        if (!std::exchange(are_ours, true)) visit([](auto& each) { handles::take_over(each); });
    };
    visit([&](auto& each) {
        try {
            handles::wait(each, take_over_all);
        } catch (...) {
            if (!failure) failure = std::current_exception();
        }
    });
    if (failure) std::rethrow_exception(failure);
}

}  // namespace detail

/// Starts all prepared operations of a range, in its order. If one of them cannot be started, those before it have
/// been.
template <detail::range_of_handles Operations>
void start_all(Operations&& operations) {
    constexpr bool are_prepared =
        std::same_as<std::remove_cvref_t<decltype(*std::ranges::begin(operations))>, persistent>;
    static_assert(are_prepared,
                  "allfold: start_all starts what prepare returns (persistent): what start returns runs already");
    if constexpr (are_prepared)
        for (auto& each : operations) each.start();
}
/// Waits for all operations of a range, also if some of them fail, and then throws what the first of those threw: none
/// is left in flight.
template <detail::range_of_handles Operations>
void wait_all(Operations&& operations) {
    detail::wait_for_each([&](auto wait) {
        for (auto& each : operations) wait(each);
    });
}
/// The same for these operations, prepared or not.
template <detail::handle First, detail::handle... More>
void wait_all(First& first, More&... more) {
    detail::wait_for_each([&](auto wait) {
        wait(first);
        (wait(more), ...);
    });
}

/// Waits until one operation of a range is done, and returns its index, the lowest if several are. Each one is returned
/// once per start: operations that have already been waited for or found done, or were never started, are skipped.
/// Returns the number of operations if there is none to wait for. Throws if the one that is done has failed.
template <detail::range_of_handles Operations>
[[nodiscard]] std::size_t wait_any(Operations&& operations) {
    using namespace detail;
    note_question_of_order();
    pending* const first = handles::first_active(operations);
    if (first != nullptr) {
        const question_about those(handles::unfinished(operations));
        until_any any(operations, *first);
        const bool waits = !any.poll();
        if (waits) wait_for(any, operations);
        if (!first->done()) look_as_observed(!waits);
        note_question_of_order();
    }
    return handles::report_first(operations);
}

/// Waits until at least one operation is done, and returns the indices of all that are, in the sense of `wait_any`;
/// empty if there is none to wait for. If one of them has failed, throws its exception, and returns the others from the
/// next call.
template <detail::range_of_handles Operations>
[[nodiscard]] std::vector<std::size_t> wait_some(Operations&& operations) {
    using namespace detail;
    note_question_of_order();
    pending* const first = handles::first_active(operations);
    if (first == nullptr) return {};
    const question_about those(handles::unfinished(operations));
    until_any any(operations, *first);
    if (!any.poll())
        wait_for(any, operations);
    else if (!is_order_observed())
        first->progress_all();
    look_as_observed(true);
    note_question_of_order();
    return handles::report_done(operations);
}

/// Makes progress without waiting; true once all operations of a range are done. Until then, none of them counts as
/// waited for; then all do, and if some have failed, it throws what the first of those threw.
template <detail::range_of_handles Operations>
[[nodiscard]] bool test_all(Operations&& operations) {
    static_cast<void>(detail::handles::progress_all(operations));
    for (auto& each : operations)
        if (detail::pending* const work = detail::handles::active(each); work && !work->done()) return false;
    wait_all(operations);
    return true;
}

/// Makes progress without waiting, and returns what `wait_any` would if it need not wait; otherwise nothing.
template <detail::range_of_handles Operations>
[[nodiscard]] std::optional<std::size_t> test_any(Operations&& operations) {
    using detail::handles;
    static_cast<void>(handles::progress_all(operations));
    const std::size_t index = handles::report_first(operations);
    if (index == static_cast<std::size_t>(std::ranges::distance(operations)) &&
        handles::first_active(operations) != nullptr)
        return std::nullopt;
    return index;
}

/// Makes progress without waiting, and returns the indices of all operations that are done, in the sense of
/// `wait_some`; possibly none.
template <detail::range_of_handles Operations>
[[nodiscard]] std::vector<std::size_t> test_some(Operations&& operations) {
    static_cast<void>(detail::handles::progress_all(operations));
    return detail::handles::report_done(operations);
}

}  // namespace allfold
