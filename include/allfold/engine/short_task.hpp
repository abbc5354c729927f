// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <array>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "allfold/engine/detail/task_memory.hpp"
#include "allfold/engine/short_call.hpp"
#include "allfold/engine/short_run.hpp"
#include "allfold/engine/task.hpp"

/// @file
/// Calls that a communicator remembers, in the background: started, or prepared to be started any number of times.

namespace allfold::detail {

/// A task that repeats such a call.
template <communicator Comm>
class short_task : public task<Comm> {
  public:
    [[nodiscard]] static void* operator new(std::size_t bytes) { return task_memory::allocate(bytes); }
    static void operator delete(void* memory, std::size_t bytes) noexcept { task_memory::free(memory, bytes); }

    void start() final {
        try {
            run_.begin();
            run_.post_first();
            all_.comm.announce_again(all_.on, all_.what.agreed, all_.what.hash);  // while they are in transit
        } catch (...) {
            this->abort_run();
            throw;
        }
        this->active_ = true;
        this->done_.store(false, std::memory_order_relaxed);
        all_.comm.background().add(*this);
        if (!run_.has_posted_first()) make_room();
    }
    void announce_prepared() final {
        all_.comm.announce_again(all_.on, all_.what.agreed, all_.what.hash);
        detail::announce_as_prepared(all_.comm, all_.on, 1, all_.what.agreed);
    }
    void wait_briefly() noexcept final {
        if (all_.comm.background().is_running()) return;
        try {
            if (!run_.wait_briefly()) return;
            finish_run();
            this->complete();
        } catch (...) {
            this->fail(std::current_exception());
        }
    }
    void orphan() noexcept final {
        task<Comm>::orphan();
        call_ = {};
    }
    [[nodiscard]] waiting blocked_on() const final {
        return this->done() ? waiting{this->what_, 0, 0, -1, all_.on} : run_.blocked_on();
    }
    void check() const final {
        if (!this->done()) run_.check();
    }

  protected:
    short_task(Comm& comm, const short_call& what, const row_layout& rows, std::byte* const* input,
               std::byte* const* result)
        : task<Comm>(comm, what.agreed.what, std::nullopt),
          call_(&what),
          rows_{rows.functions, rows.operation, what.bytes.data(), rows.row_bytes, what.alignment},
          all_{comm, what, rows_, {input_.data()}, {result_.data()}, comm.open_again(what.agreed, what.hash), 0},
          run_(all_) {
        for (std::size_t c = 0; c < rows.columns(); ++c) {
            input_[c] = input[c];
            result_[c] = result[c];
        }
        all_.hash = comm.background().follow(what.hash, all_.on);
        comm.background().attach(*this, &comm);
    }
    void fold_with(const void* operation) noexcept { rows_.operation = operation; }

  private:
    void announce_run() final {
        all_.on = all_.comm.restart_lane(all_.on, 1);
        all_.comm.reopen(all_.on, all_.what.agreed);
        all_.unordered = true;
    }
    void begin_run() final { run_.begin(); }
    bool poll_run() final { return run_.poll(); }
    void finish_run() final { all_.what.lower(rows_, result_.data()); }
    void drop_run() noexcept final { run_.drop(); }

    /// Older operations are in the way: makes progress on them for a moment. This takes no longer if there are
    /// thousands of them, on this communicator or on all together, and less each time it was in vain: in that case the
    /// peer has not arrived.
    void make_room() noexcept {
        // With 4 or 256 turns and with 1024 or 65536 polls it takes the same time within 5% with 64 and 1024 in flight
        // (Xeon, two cores); 256 turns take 0.7x the time with 2^14 in flight, and 1.05x with 1024.
        constexpr std::size_t turns = 32, max_polls = 8192;
        background& home = all_.comm.background();
        const std::size_t in_flight = home.size() * background::busy(), most = turns >> home.failed_attempts();
        const auto is_waiting = [this] { return !run_.has_posted_first() && !this->done(); };
        for (std::size_t turn = 1; turn <= most && turn * in_flight <= max_polls && is_waiting(); ++turn)
            home.progress();
        if (is_waiting()) {
            home.progress_oldest();
            this->progress();
        }
        home.record_attempt(is_waiting());
    }

    remembered_call call_;
    row_layout rows_;
    std::array<std::byte*, short_call::max_columns> input_, result_;
    short_operands<Comm> all_;
    short_run<Comm> run_;
};

/// Owns its operator.
template <communicator Comm, class Op>
class short_task_with final : public short_task<Comm> {
  public:
    short_task_with(Comm& comm, const short_call& what, const row_layout& rows, std::byte* const* input,
                    std::byte* const* result, const Op& op)
        : short_task<Comm>(comm, what, rows, input, result), op_(op) {
        this->fold_with(std::addressof(op_));
    }
    ~short_task_with() override { this->leave_for_good(); }

  private:
    static_assert(alignof(Op) <= task_memory::alignment);
    [[no_unique_address]] Op op_;
};

/// Owns arguments that the engine has bound.
template <communicator Comm>
class bound_short_task final : public short_task<Comm> {
  public:
    bound_short_task(Comm& comm, const short_call& what, const operands& memory,
                     std::unique_ptr<bound_arguments> arguments)
        : short_task<Comm>(comm, what, arguments->rows(), memory.input.first.columns, memory.result.first.columns),
          arguments_(std::move(arguments)) {}
    ~bound_short_task() override { this->leave_for_good(); }

  private:
    std::unique_ptr<bound_arguments> arguments_;
};

}  // namespace allfold::detail
