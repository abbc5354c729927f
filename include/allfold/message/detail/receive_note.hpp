// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "allfold/engine/detail/task_memory.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/error.hpp"
#include "allfold/message/detail/matching.hpp"
#include "allfold/message/detail/message_data.hpp"
#include "allfold/message/options.hpp"
#include "allfold/transport/background.hpp"

/// @file
/// A started receive that, so far, only has to wait for its message. It takes two cache lines, where a background call
/// takes seven, and is done as soon as its message has been copied. It becomes such a call if, before that, it is
/// waited for, cancelled, released, or given a function to call at its end; if its message is more than just bytes that
/// fit; and if anything goes wrong.

namespace allfold::detail {

class receive_note;

/// Makes progress on the notes of a communicator.
class note_keeper : public background::work {
  public:
    /// Called for the first note: the keeper is in flight as long as there are any.
    virtual void start() = 0;
    /// Waits briefly for messages from a rank, and takes them in.
    virtual void poll_briefly(int source) noexcept = 0;
    /// The call that a note becomes, and its receive.
    struct call {
        std::unique_ptr<pending> work;
        receiving* in = nullptr;
    };
    [[nodiscard]] virtual call call_of(receive_note& note) = 0;
    /// Called in a handler: loses the note, and aborts the communicator.
    virtual void abandon(receive_note& note) noexcept = 0;
};

class receive_note final : public posted_receive, public operation_note {
  public:
    receive_note(note_keeper& keeper, int from_rank, int wanted_tag, const message_data& where,
                 status* status_out) noexcept
        : posted_receive(from_rank, wanted_tag, where), keeper_(keeper), status_out_(status_out) {
        is_note = true;
    }
    [[nodiscard]] static void* operator new(std::size_t bytes) { return block_pool<128>::allocate(bytes); }
    static void operator delete(void* memory, std::size_t bytes) noexcept { block_pool<128>::free(memory, bytes); }

    [[nodiscard]] status* status_out() const noexcept { return status_out_; }
    void wait_briefly() noexcept override {
        if (waits()) keeper_.poll_briefly(source);
    }
    void take_over() noexcept override {
        if (waits()) return keeper_.take_over();  // otherwise it may be gone
        if (call_) call_->take_over_all();
    }
    [[nodiscard]] std::unique_ptr<pending> promote() override {
        if (waits()) keeper_.take_over();
        if (waits()) become_call();
        if (state_.load(std::memory_order_acquire) == state::lost)
            throw error(errc::peer_failed, "receive: abandoned with its communicator");
        return std::move(call_);
    }
    void abandon() noexcept override {
        if (waits()) keeper_.abandon(*this);
    }
    receiving& become_call() {
        note_keeper::call made = keeper_.call_of(*this);
        receiving& in = *made.in;
        call_ = std::move(made.work);
        state_.store(state::is_call, std::memory_order_release);
        return in;
    }
    /// Its message has been copied. The note may be destroyed from here on.
    void end(const status& found) noexcept {
        if (status_out_ != nullptr) *status_out_ = found;
        state_.store(state::done, std::memory_order_release);
    }

    /// There is no memory for the call that would report a failure.
    void lose() noexcept { state_.store(state::lost, std::memory_order_release); }

  private:
    [[nodiscard]] bool waits() const noexcept { return state_.load(std::memory_order_acquire) == state::waits; }

    note_keeper& keeper_;
    status* status_out_;
    std::unique_ptr<pending> call_;
};

}  // namespace allfold::detail
