// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "allfold/engine/operation.hpp"
#include "allfold/engine/task.hpp"

/// @file
/// Operations that are made of others.

namespace allfold::detail {

/// A task whose parts are tasks of the same communicator: they are in flight as any others, and it is done when all of
/// them are. Who derives from it says in which order they start.
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

    [[nodiscard]] waiting blocked_on() const override {
        const pending* const first = first_unfinished();
        return first ? first->blocked_on() : waiting{this->what_};
    }
    void check() const override {
        if (const pending* const first = first_unfinished()) first->check();
    }

  protected:
    /// As long as the parts, which use it.
    void keep(std::unique_ptr<background::keepsake> through) noexcept { through_ = std::move(through); }
    void start_part(std::size_t i) { is_started_again_ ? parts_[i]->start_prepared() : parts_[i]->start(); }
    [[nodiscard]] pending& part(std::size_t i) noexcept { return *parts_[i]; }
    [[nodiscard]] std::size_t count() const noexcept { return parts_.size(); }
    [[nodiscard]] std::unique_ptr<pending> take_part(std::size_t i) noexcept { return std::move(parts_[i]); }

    void announce_run() override { is_started_again_ = true; }
    bool poll_run() override { return first_unfinished() == nullptr; }
    void finish_run() override {
        for (const auto& each : parts_) each->tell();
    }
    void drop_run() noexcept override {}

  private:
    [[nodiscard]] const pending* first_unfinished() const noexcept {
        for (const auto& each : parts_)
            if (each && !each->done()) return each.get();
        return nullptr;
    }

    std::unique_ptr<background::keepsake> through_;
    tasks parts_;
    bool is_started_again_ = false;
};

/// One after another.
template <communicator Comm>
class in_turn final : public composite<Comm> {
  public:
    using composite<Comm>::composite;
    ~in_turn() override { this->leave(); }

  private:
    void begin_run() override {
        ended_ = 0;
        start_next();
    }
    bool poll_run() override { return ended_ == this->count(); }
    void start_next() {
        const std::size_t i = ended_;
        this->start_part(i);
        this->part(i).then(std::make_unique<continuation_with<next>>(next{*this}));
    }
    struct next {
        in_turn& self;
        void operator()() const {
            if (++self.ended_ < self.count()) self.start_next();
        }
    };

    std::size_t ended_ = 0;
};

/// One that is done as soon as its result is there: who reads this rank's memory after that reads on.
template <communicator Comm>
class ending_early final : public composite<Comm> {
  public:
    using composite<Comm>::composite;
    ~ending_early() override {
        this->leave();
        if (!this->part(0).done()) this->take_part(0).release()->detach();
    }

  private:
    void begin_run() override {
        if (!this->part(0).done()) wait_for_readers();
        if (this->part(0).is_active()) this->part(0).tell();
        this->start_part(0);
    }
    bool poll_run() override { return this->part(0).finish_early(); }
    void finish_run() override {
        if (this->part(0).done()) this->part(0).tell();
    }
    /// Of the start before this one.
    void wait_for_readers() {
        until_done readers(this->part(0));
        this->part(0).wait(readers);
    }
};

}  // namespace allfold::detail
