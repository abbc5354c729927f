// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>

#include "allfold/engine/operation.hpp"
#include "allfold/engine/task.hpp"
#include "allfold/message/detail/direct_read.hpp"
#include "allfold/message/detail/message_data.hpp"
#include "allfold/message/detail/message_request.hpp"
#include "allfold/message/detail/message_task.hpp"
#include "allfold/message/detail/port.hpp"
#include "allfold/message/detail/post_office.hpp"
#include "allfold/message/detail/receive_note.hpp"
#include "allfold/message/detail/short_message.hpp"
#include "allfold/message/options.hpp"
#include "allfold/transport/background.hpp"
#include "allfold/transport/communicator.hpp"

/// @file
/// Started receives that are only notes, for as long as that suffices.

namespace allfold::detail {

/// One operation in flight on behalf of all notes. What it cannot do is left to the calls that they become.
template <communicator Comm>
class note_keeper_of final : public note_keeper {
  public:
    note_keeper_of(Comm& comm, post_office& office) : comm_(comm), office_(office) {
        background::prepare_this_thread();
    }
    ~note_keeper_of() override { this->leave_for_good(); }

    void start() override { comm_.background().add(*this); }
    /// Only if there are few notes: among many, the first becomes a call, and by the time that is done others have
    /// arrived. AMD Zen 3, two cores near each other: a halo of six faces of 4 bytes takes 0.86x the time; 64 messages
    /// each way would take 1.07x.
    void poll_briefly(int source) noexcept override {
        constexpr std::size_t few = 8;
        if (source == comm_.rank() || comm_.background().is_running() || office_.notes() > few) return;
        try {
            message_in_place here{};
            if (comm_.find_in_place(source, envelopes_lane, sizeof(message_head), here, true))
                progress_with(comm_, office_, source);
        } catch (...) {
            abort_communicator(comm_);
        }
    }
    [[nodiscard]] call call_of(receive_note& note) override {
        auto made = std::make_unique<message_task<Comm, receive_request>>(comm_, note);
        receiving& in = made->received();
        return {std::move(made), &in};
    }

    void progress() noexcept override {
        if (comm_.background().is_running()) return;
        if (!progress_or_abort(comm_, office_, [this] { office_.help(); })) return;
        if (office_.notes() == 0 && !office_.owes_answers()) this->leave();
        office_.settle();  // last: this may have been destroyed from here on
    }
    void abandon(receive_note& note) noexcept override {
        office_.lose(note);
        abort_communicator(comm_);
    }
    void drop() noexcept override {
        office_.promote_or_lose_all();
        office_.in_flight().drop_all();
    }
    void orphan() noexcept override {
        try {
            office_.promote_all();
        } catch (...) {
            office_.promote_or_lose_all();
            abort_communicator(comm_);
        }
    }
    /// A rank that has waited this long has time for calls.
    void look_around() noexcept override {
        if (comm_.background().is_running()) return;
        try {
            office_.promote_all();
        } catch (const std::bad_alloc&) {  // perhaps next time
        }
    }

  private:
    Comm& comm_;
    post_office& office_;
};

/// Notes a plain receive, and returns the note, which the caller owns. Null if it must be a call, is likely to become
/// one, or its message has already arrived.
template <communicator Comm>
[[nodiscard, gnu::noinline]] receive_note* note_receive(Comm& comm, post_office& office, const message_data& place,
                                                        int source, int label, status* status_out) {
    const bool is_likely_read_directly = place.bytes() > longest_copied;
    if (is_likely_read_directly || office.holds(source, label)) return nullptr;
    if (!office.keeper) office.keeper = std::make_unique<note_keeper_of<Comm>>(comm, office);
    auto made = std::make_unique<receive_note>(*office.keeper, source, label, place, status_out);
    office.note(*made);
    return made.release();
}

}  // namespace allfold::detail
