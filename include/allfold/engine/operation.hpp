// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <utility>
#include <vector>

#include "allfold/transport/background.hpp"
#include "allfold/transport/communicator.hpp"

/// @file
/// Operations in flight.

namespace allfold {

namespace detail {

/// Something to wait for, of any type.
class erased_work {
  public:
    virtual ~erased_work() = default;
    virtual bool poll() = 0;
    [[nodiscard]] virtual waiting blocked_on() const = 0;
    virtual void check() const = 0;
};

/// A call that runs in the background of its communicator.
class pending : public background::work {
  public:
    using time_point = std::chrono::steady_clock::time_point;

    virtual void start() = 0;
    /// Pushes on all that is in flight on this communicator.
    virtual void push() = 0;
    /// Waits as this communicator waits.
    virtual void wait(erased_work& work, std::optional<time_point> until) = 0;
    /// Makes every other rank throw.
    virtual void abandon() noexcept = 0;
    [[nodiscard]] virtual waiting blocked_on() const = 0;
    /// Throws when waiting is in vain.
    virtual void check() const = 0;

    [[nodiscard]] bool done() const noexcept { return done_; }
    [[nodiscard]] std::optional<time_point> deadline() const noexcept { return deadline_; }
    void rethrow() {
        if (failure_) std::rethrow_exception(failure_);
    }

  protected:
    bool done_ = true;
    std::optional<time_point> deadline_;
    std::exception_ptr failure_;
};

}  // namespace detail

/// A collective in flight, as `start` returns it. The data that it was given must stay where it is, and must not be
/// written (nor, where it is the result, read) until it is done. Any call that waits on the communicator pushes all its
/// operations on. Destroying an operation waits for it.
class operation {
  public:
    operation() = default;
    explicit operation(std::unique_ptr<detail::pending> work)
        : work_(std::move(work)), exceptions_(std::uncaught_exceptions()) {}
    operation(operation&&) noexcept = default;
    operation& operator=(operation&& other) noexcept {
        finish();
        work_ = std::move(other.work_);
        exceptions_ = other.exceptions_;
        return *this;
    }
    ~operation() { finish(); }

    /// Makes progress without waiting; true once the collective is complete. Throws what went wrong in it.
    [[nodiscard]] bool done() {
        if (!work_) return true;
        if (!work_->done()) work_->push();
        if (work_->done()) work_->rethrow();
        return work_->done();
    }
    /// Returns when the collective is complete. Throws what went wrong in it.
    void wait() {
        if (!work_) return;
        if (!work_->done()) {
            until_done all(*work_);
            work_->wait(all, work_->deadline());
        }
        work_->rethrow();
    }

  private:
    friend class persistent;
    template <std::ranges::forward_range Operations>
    friend std::size_t wait_any(Operations&& operations);

    class until_done final : public detail::erased_work {
      public:
        explicit until_done(detail::pending& work) : work_(work) {}
        bool poll() override {
            if (!work_.done()) work_.push();
            return work_.done();
        }
        [[nodiscard]] waiting blocked_on() const override { return work_.blocked_on(); }
        void check() const override { work_.check(); }

      private:
        detail::pending& work_;
    };

    void finish() noexcept {
        if (!work_ || work_->done()) return;
        try {
            if (std::uncaught_exceptions() > exceptions_)
                work_->abandon();  // the caller is on its way out, and its data with it
            else
                wait();
        } catch (...) {  // whoever asks the communicator next is told
        }
    }

    std::unique_ptr<detail::pending> work_;
    int exceptions_ = 0;
};

/// A collective that is prepared once and started again and again, as `prepare` returns it: arguments are checked, the
/// schedule is chosen and memory is found only once.
class persistent : private operation {
  public:
    using operation::done;
    using operation::operation;
    using operation::wait;
    /// Starts it; every rank must. The previous start must be done.
    void start() { work_->start(); }
    /// Starts it and waits for it.
    void operator()() {
        start();
        wait();
    }
};

/// Waits for all operations of a range.
template <std::ranges::forward_range Operations>
void wait_all(Operations&& operations) {
    for (operation& each : operations) each.wait();
}
template <std::same_as<operation>... More>
void wait_all(operation& first, More&... more) {
    first.wait();
    (more.wait(), ...);
}

/// Waits until one operation of a range is done and returns its index, the lowest if there are several; the number of
/// operations if the range is empty.
template <std::ranges::forward_range Operations>
[[nodiscard]] std::size_t wait_any(Operations&& operations) {
    struct until_any final : detail::erased_work {
        explicit until_any(Operations& all) : all_(all) {}
        bool poll() override {
            for (index = 0; auto& each : all_) {
                if (each.done()) return true;
                ++index;
            }
            return index == 0;
        }
        [[nodiscard]] waiting blocked_on() const override { return std::ranges::begin(all_)->work_->blocked_on(); }
        void check() const override { std::ranges::begin(all_)->work_->check(); }
        Operations& all_;
        std::size_t index = 0;
    } any(operations);
    if (!any.poll()) {
        auto& first = *std::ranges::begin(operations);
        first.work_->wait(any, first.work_->deadline());
    }
    return any.index;
}

/// Waits until at least one operation is done and returns the indices of all that are.
template <std::ranges::forward_range Operations>
[[nodiscard]] std::vector<std::size_t> wait_some(Operations&& operations) {
    std::vector<std::size_t> indices;
    if (std::ranges::empty(operations)) return indices;
    static_cast<void>(wait_any(operations));
    for (std::size_t i = 0; operation & each : operations) {
        if (each.done()) indices.push_back(i);
        ++i;
    }
    return indices;
}

}  // namespace allfold
