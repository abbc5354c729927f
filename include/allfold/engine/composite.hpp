// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "allfold/engine/operation.hpp"
#include "allfold/engine/task.hpp"

/// @file
/// Operations that are composed of others.

namespace allfold::detail {

/// A task whose parts are tasks on the same communicator: they are in flight like any others, and it is done when all
/// of them are. Derived classes decide in which order the parts start.
template <communicator Comm>
class composite : public task<Comm> {
  public:
    using tasks = std::vector<std::unique_ptr<pending>>;

    composite(Comm& comm, const char* what, tasks of) : task<Comm>(comm, what, std::nullopt), parts_(std::move(of)) {
        comm.background().attach(*this, &comm);
    }

    void orphan() noexcept override {
        for (const auto& each : parts_) {
            each->leave();
            each->orphan();
        }
        task<Comm>::orphan();
    }

    void take_over_all() noexcept override {
        this->take_over();
        for (const auto& each : parts_)
            if (each && !each->done()) each->take_over_all();
    }
    [[nodiscard]] waiting blocked_on() const override {
        const pending* const first = first_unfinished();
        return first ? first->blocked_on() : waiting{this->what_};
    }
    void check() const override {
        if (const pending* const first = first_unfinished()) first->check();
    }
    void announce_prepared() override {
        for (const auto& each : parts_)
            if (each) each->announce_prepared();
    }
    /// The part that is running looks around: what its peer sent before it left has to be taken in by that part.
    void look_around() noexcept override {
        if (pending* const first = first_unfinished()) return first->look_around();
        task<Comm>::look_around();
    }
    /// Waits the way the communicator of the part that is running waits, which may be a different one.
    void wait(erased_work& what) override {
        while (!what.poll()) {
            pending* const now = first_unfinished();
            if (now == nullptr) return task<Comm>::wait(what);
            while_running part(*this, *now, what);
            now->wait(part);
        }
    }

  protected:
    /// Keeps `through` alive as long as the parts, which use it.
    void keep(std::unique_ptr<background::resource> through) noexcept { through_ = std::move(through); }
    void leak_kept() noexcept { static_cast<void>(through_.release()); }
    void start_part(std::size_t i) { is_started_again_ ? parts_[i]->start_prepared() : parts_[i]->start(); }
    [[nodiscard]] pending& part(std::size_t i) noexcept { return *parts_[i]; }
    [[nodiscard]] std::size_t count() const noexcept { return parts_.size(); }
    [[nodiscard]] std::unique_ptr<pending> take_part(std::size_t i) noexcept { return std::move(parts_[i]); }

    void announce_run() override { is_started_again_ = true; }
    bool poll_run() override { return first_unfinished() == nullptr; }
    void finish_run() override {
        for (const auto& each : parts_) each->report();
    }
    void drop_run() noexcept override {}

  private:
    /// Waits for `what`, as long as one part is running.
    class while_running final : public erased_work {
      public:
        while_running(const composite& all, const pending& part, erased_work& what) noexcept
            : all_(all), part_(part), what_(what) {}
        [[nodiscard]] bool poll() override { return what_.poll() || all_.first_unfinished() != &part_; }
        [[nodiscard]] waiting blocked_on() const override { return what_.blocked_on(); }
        void check() const override { what_.check(); }

      private:
        const composite& all_;
        const pending& part_;
        erased_work& what_;
    };

    [[nodiscard]] pending* first_unfinished() const noexcept {
        for (const auto& each : parts_)
            if (each && !each->done()) return each.get();
        return nullptr;
    }

    std::unique_ptr<background::resource> through_;
    tasks parts_;
    bool is_started_again_ = false;
};

/// What a rank does on its own, before part number `part` or after the last one: a small closure. (With a virtual
/// function a program compiles 8 functions for each of these, with `std::function` 20, and here 2.)
class local_stage {
  public:
    template <class F>
        requires std::is_trivially_copyable_v<F>
    local_stage(std::size_t part, const F& f) noexcept : part_(part), run_(&run_as<F>) {
        static_assert(sizeof(F) <= sizeof closure_ && alignof(F) <= alignof(void*));
        ::new (static_cast<void*>(closure_)) F(f);
    }
    [[nodiscard]] std::size_t part() const noexcept { return part_; }
    void run() const { run_(closure_); }

  private:
    template <class F>
    static void run_as(const std::byte* closure) {
        (*std::launder(reinterpret_cast<const F*>(closure)))();
    }
    std::size_t part_;
    void (*run_)(const std::byte*);
    alignas(void*) std::byte closure_[6 * sizeof(void*)];
};

/// Runs parts one after another, with local work of each rank in between.
template <communicator Comm>
class sequential_task final : public composite<Comm> {
  public:
    using typename composite<Comm>::tasks;

    /// `memory`: kept alive for all parts.
    sequential_task(Comm& comm, const char* what, tasks parts, std::vector<local_stage> own = {},
                    std::unique_ptr<background::resource> memory = nullptr)
        : composite<Comm>(comm, what, std::move(parts)), own_(std::move(own)) {
        this->keep(std::move(memory));
    }
    ~sequential_task() override { this->leave_for_good(); }

    void leak() noexcept override { this->leak_kept(); }

  private:
    void begin_run() override {
        ended_ = 0;
        is_complete_ = false;
        start_next();
    }
    bool poll_run() override {
        if (failure_between_) std::rethrow_exception(failure_between_);
        if (pending* const now = ended_ < this->count() ? &this->part(ended_) : nullptr; now && now->has_failed())
            now->report();
        return is_complete_;
    }
    void start_next() {
        run_own();
        const std::size_t i = ended_;
        if (i == this->count()) {
            is_complete_ = true;
            return;
        }
        this->start_part(i);
        this->part(i).at_end(std::make_unique<next>(*this));
    }
    /// Operators called here must not use this communicator, and nobody makes progress on this task meanwhile.
    void run_own() {
        const background::running inside(this->comm_->background());
        for (const local_stage& each : own_)
            if (each.part() == ended_) each.run();
    }
    struct next final : pending::continuation {
        explicit next(sequential_task& all) noexcept : self(all) {}
        void call(const std::exception_ptr& failure) override {
            if (failure) return;
            ++self.ended_;
            try {
                self.start_next();
                if (!self.done()) self.comm_->background().add(self);  // behind its part, whose end it sees at once
            } catch (...) {
                self.failure_between_ = std::current_exception();
            }
        }
        sequential_task& self;
    };

    std::vector<local_stage> own_;
    std::size_t ended_ = 0;
    bool is_complete_ = false;
    std::exception_ptr failure_between_;
};

/// An operation that is done as soon as its result is available; peers may go on reading this rank's memory after that.
template <communicator Comm>
class early_result_task final : public composite<Comm> {
  public:
    using composite<Comm>::composite;
    ~early_result_task() override {
        this->leave();
        if (!this->part(0).done()) this->take_part(0).release()->detach();
    }

  private:
    void begin_run() override {
        if (!this->part(0).done()) wait_for_readers();
        if (this->part(0).is_active()) this->part(0).report();
        this->start_part(0);
    }
    bool poll_run() override { return this->part(0).finish_early(); }
    void finish_run() override {
        if (this->part(0).done()) this->part(0).report();
    }
    /// Those of the previous start.
    void wait_for_readers() {
        until_done readers(this->part(0));
        this->part(0).wait(readers);
    }
};

}  // namespace allfold::detail
