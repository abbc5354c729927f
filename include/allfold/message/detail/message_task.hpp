// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "allfold/engine/detail/memory_in_use.hpp"
#include "allfold/engine/detail/task_memory.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/engine/task.hpp"
#include "allfold/error.hpp"
#include "allfold/message/detail/message_data.hpp"
#include "allfold/message/detail/message_request.hpp"
#include "allfold/message/detail/port.hpp"
#include "allfold/message/detail/post_office.hpp"
#include "allfold/message/detail/receive_note.hpp"
#include "allfold/message/options.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/arrival_order.hpp"
#include "allfold/transport/detail/copy.hpp"

/// @file
/// A send, a receive, an exchange or a probe, as a background operation of its communicator.

namespace allfold::detail {

/// `Request`: what kind of request it holds.
template <communicator Comm, class Request = message_request>
class message_task final : public task<Comm>, private open_message {
  public:
    /// `make()` returns the request.
    template <class Make>
    message_task(Comm& comm, const Make& make)
        : task<Comm>(comm, "message", std::nullopt),
          office_(office_of(comm)),
          place_(hooks::take_place(comm)),
          asked_(make()) {
        this->what_ = asked_.what;
        if (asked_.limit()) this->limit_ = asked_.limit();
        comm.background().attach(*this, &comm);
    }
    /// Takes over from a note, which has already been started.
    message_task(Comm& comm, receive_note& note)
        requires std::is_same_v<Request, receive_request>
        : task<Comm>(comm, "receive"), office_(office_of(comm)), asked_(note) {
        comm.background().attach(*this, &comm);
        in()->owner = this;
        this->await_parts(1);
        office_.in_flight().enter(*this);
        office_.replace(note, *in());
        this->note_start();
        office_.in_flight().find_leader();
    }
    ~message_task() override { this->leave_for_good(); }
    [[nodiscard]] static void* operator new(std::size_t bytes) { return task_memory::allocate(bytes); }
    static void operator delete(void* memory, std::size_t bytes) noexcept { task_memory::free(memory, bytes); }

    /// It will be waited for as soon as it has started: nobody will test whether it is done.
    void set_waited_for() noexcept { is_waited_for_ = true; }
    /// Throws, before anything is sent, if there is no room for a buffered message.
    void require_buffer() {
        if (!out() || out()->how != mode::buffered || out()->receiver == null_rank) return;
        const std::size_t bytes = out()->data.bytes();
        send_buffer& buffer = office_.buffer;
        if constexpr (hooks::delays_messages) {
            buffer.forget_sent();
            if (!buffer.is_empty()) note_question_of_the_past();  // whether those sends are done by now
        }
        if (buffer.has_room(bytes)) return;
        if constexpr (!hooks::delays_messages) {  // makes progress: a caller that finds no room may retry
            buffer.forget_sent();
            if (buffer.has_room(bytes)) return;
            if (!buffer.is_empty()) this->progress_all();
            buffer.forget_sent();
            if (buffer.has_room(bytes)) return;
        }
        throw error(errc::bad_argument, text({"send: rank ", office_.rank(), " sends ", bytes, " bytes to rank ",
                                              out()->receiver, " in mode::buffered, but only ", buffer.free_bytes(),
                                              " of the ", buffer.bytes(), " attached bytes are free"}));
    }
    [[nodiscard]] receiving& received() noexcept { return *in(); }
    [[nodiscard]] status found() const noexcept { return in() ? in()->found : status{}; }
    [[nodiscard]] std::unique_ptr<held_message> take_held() noexcept { return std::move(in()->held); }

    void start() override {
        this->comm_->background().take_over();
        hooks::before_message(*this->comm_, in() != nullptr,
                              out() != nullptr && out()->receiver == this->comm_->rank());
        office_.in_flight().enter(*this);
        try {
            begin_run();
        } catch (...) {
            this->abort_run();
            throw;
        }
        this->note_start();
        office_.settle();
        if (this->done()) return;
        office_.in_flight().find_leader();
        if (this->is_timed()) lead();
        if constexpr (hooks::delays_messages) progress();  // a message arrives only at a rank that has looked for it
    }
    void progress() noexcept override {
        if (this->done() || this->comm_->background().is_running()) return;
        for (bool again = true; again;) {
            try {
                progress_in_time();
                again = false;
            } catch (...) {
                if (!continue_without_peer()) return;
            }
        }
        office_.settle();  // last: this may have been destroyed from here on
    }
    /// Drops all messages in flight, since one of them makes progress on the others.
    void drop() noexcept override { office_.in_flight().drop_all(); }
    void start_prepared() override {
        if (!this->is_active() && this->comm_ != nullptr) require_buffer();
        task<Comm>::start_prepared();
    }
    [[nodiscard]] waiting blocked_on() const override {
        waiting where{this->what_};
        where.rounds = 1;
        where.on = envelopes_lane;
        where.call = call_;
        if (in() && !in()->is_done)
            where.peer = is_open()                         ? office_.first_present()
                         : in()->found.source != null_rank ? in()->found.source
                                                           : in()->source;
        else if (out() && !out()->is_done)
            where.peer = out()->receiver;
        return where;
    }
    void check() const override {
        if (!waits_for_itself()) return;
        throw error(errc::bad_argument,
                    text({this->what_, ": rank ", office_.rank(), " of ", office_.size(),
                          in() ? " waits for a message from itself, but has sent none"
                               : " waits until it has received a message from itself, but has started no receive",
                          ", and has nothing else in flight"}));
    }
    [[nodiscard]] bool cancel() noexcept override {
        if constexpr (hooks::delays_messages)
            if (!in()) note_cancel_of_send(call_);
        if (this->done()) return false;
        this->take_over();
        if constexpr (hooks::delays_messages) this->progress_all();  // it may have arrived by now
        if (this->done() || (in() && out())) return false;
        if (!(in() ? office_.cancel(*in()) : office_.cancel(*out()))) return false;
        if constexpr (hooks::delays_messages)
            if (!in()) this->comm_->note_cancelled(*out());
        tell_status();
        if (!in() && asked_.status_out() != nullptr) asked_.status_out()->cancelled = true;
        office_.in_flight().leave(*this);
        office_.in_flight().find_leader();  // before the continuation, which may wait for others
        office_.keep_answering();
        this->complete();
        return true;
    }

    [[nodiscard]] bool is_releasable() const noexcept override { return true; }
    void detach() noexcept override {
        is_detached_ = true;
        asked_.status_out() = nullptr;
    }
    void orphan() noexcept override {
        task<Comm>::orphan();
        if (is_detached_) delete this;
    }

    /// While a receive from any rank is unmatched, it waits for each of the others in turn: a rank that has returned is
    /// no reason to fail as long as another one is still there.
    void wait(erased_work& what) override {
        require_outside_operator(*this->comm_, this->what_);
        for (bool again = true; again;) {
            try {
                this->wait_for(what);
                again = false;
            } catch (...) {
                again = continue_without_peer();
            }
        }
    }
    void look_around() noexcept override {
        if (this->done() || this->comm_->background().is_running()) return;
        try {
            if constexpr (outer_communicator<Comm>) {
                struct {
                    message_task& self;
                    bool poll() {
                        const background::running inside(self.comm_->background());
                        return self.poll_run();
                    }
                    [[nodiscard]] waiting blocked_on() const { return self.blocked_on(); }
                    static void check() {}
                } looking{*this};
                this->comm_->look_around(looking, std::nullopt);
            }
        } catch (...) {
            static_cast<void>(continue_without_peer());
        }
    }
    void look_around_meanwhile() noexcept override {}  // it may be cancelled instead
    void check_or_fail() noexcept override {
        if constexpr (Comm::shares_memory) look_around();
    }

  private:
    using typename task<Comm>::hooks;

    /// Whether only this rank could send, or receive, what it waits for, and nothing else is in flight that might still
    /// do so.
    [[nodiscard]] bool waits_for_itself() const {
        if constexpr (hooks::delays_messages) return false;  // explore finds out for itself
        if (this->is_timed() || !(in() ? receives_from_itself() : sends_to_itself())) return false;
        background& home = this->comm_->background();
        return office_.in_flight().is_alone(*this) && office_.notes() == 0 && home.size() <= 1 &&
               !home.in_flight_elsewhere();
    }
    [[nodiscard]] bool receives_from_itself() const noexcept {
        return in()->is_posted && (in()->source == office_.rank() || (in()->source == any_rank && office_.size() == 1));
    }
    /// Whether the message is held: no receive has matched it, and no probe has found it.
    [[nodiscard]] bool sends_to_itself() const {
        return !out()->is_done && out()->receiver == office_.rank() && office_.holds(office_.rank(), out()->label);
    }
    [[nodiscard]] bool is_open() const noexcept { return in() && in()->is_posted && in()->source == any_rank; }
    // Null if it sends, or receives, nothing.
    [[nodiscard]] sending* out() noexcept { return asked_.sent(); }
    [[nodiscard]] receiving* in() noexcept { return asked_.received(); }
    [[nodiscard]] const sending* out() const noexcept { return asked_.sent(); }
    [[nodiscard]] const receiving* in() const noexcept { return asked_.received(); }

    void announce_run() override {}
    void begin_run() override {
        port_of<Comm> port(*this->comm_, office_);
        if (out()) out()->owner = this, out()->is_done = false;
        if (in()) in()->owner = this, in()->is_done = false;
        this->await_parts((out() ? 1 : 0) + (in() ? 1 : 0));
        if constexpr (!is_plain)
            if (asked_.arranged) rearrange(*asked_.arranged);
        call_ = hooks::start_message(*this->comm_, this->what_, out(), in(), is_waited_for_, place_);
        if constexpr (watching_memory<Comm>) this->comm_->watch_memory(this, blocked_on(), memory());
        if constexpr (!is_plain)
            if (asked_.given) return office_.start(*in(), std::move(asked_.given));
        if (in()) office_.start(*in());
        if (out() && out()->how == mode::buffered && out()->receiver != null_rank)
            send_copy();
        else if (out())
            office_.start(*out(), port);
    }
    void send_copy();
    void rearrange(rearrangement& how) {
        if (!how.in_runs.empty()) {
            how.without_gaps.resize(in()->place.bytes());
            in()->place.data = how.without_gaps.data();
        }
        if (!how.out_runs.empty()) {
            how.copy.resize(out()->data.bytes());
            pack(how.out_runs, 1, how.copy.data());
            out()->data.data = how.copy.data();
        } else if (out() && how.is_in_place) {
            how.copy.assign(in()->place.data, in()->place.data + in()->place.bytes());
            out()->data.data = how.copy.data();
        }
    }
    /// Polled by a wait for this operation alone, during which no operation is ended.
    bool poll_run() override {
        progress_messages();
        return is_complete() && !office_.owes_answers();
    }
    void progress_in_time() {
        const background::running inside(this->comm_->background());
        progress_messages();
        if (!is_complete()) this->require_time();
    }
    void progress_messages() {
        if constexpr (watching_memory<Comm>) office_.in_flight().check_memory();
        if (is_complete() && !office_.owes_answers()) return;
        port_of<Comm> port(*this->comm_, office_);
        office_.progress(port, this->comm_->background().pass());
        if (!is_complete()) office_.help();
    }
    void end() noexcept override {
        if (this->has_continuation()) office_.in_flight().find_leader();  // the continuation may wait for others
        finish_run();
        const bool is_own = is_detached_;  // read now: another thread may destroy this as soon as it is done
        this->complete();
        if (is_own) delete this;
    }
    void check_memory() override {
        if constexpr (watching_memory<Comm>) this->comm_->check_memory(this, in() && (!in()->is_done || distributes()));
    }
    void lead() noexcept override { this->comm_->background().add(*this); }
    void drop_alone() noexcept override { task<Comm>::drop(); }
    void finish_run() override {
        check_memory();
        if (out() && out()->failure) this->failure_ = out()->failure;
        if (in() && in()->failure) this->failure_ = in()->failure;
        this->failed_alone_ = this->failure_ != nullptr;
        if (this->failed_alone_) hooks::note_failure(*this->comm_, *this, this->failure_);
        if constexpr (!is_plain)
            if (distributes() && !in()->failure)
                distribute(asked_.arranged->in_runs, asked_.arranged->without_gaps.data(),
                           in()->found.elements * in()->place.type->element_bytes);
        tell_status();
    }
    /// Whether what is received is distributed over runs, which is done at the end.
    [[nodiscard]] bool distributes() const noexcept {
        if constexpr (is_plain)
            return false;
        else
            return asked_.arranged && !asked_.arranged->in_runs.empty();
    }
    [[nodiscard]] memory_in_use memory() const {
        memory_in_use all;
        std::span<const part> out_runs, in_runs;
        if constexpr (!is_plain)
            if (asked_.arranged) {
                out_runs = asked_.arranged->out_runs;
                in_runs = asked_.arranged->in_runs;
            }
        if (out() && out()->data.type->copies_bytes()) add_ranges(all.read, out_runs, out()->data);
        if (in() && in()->place.type->copies_bytes()) add_ranges(all.written, in_runs, in()->place);
        return all;
    }
    /// Adds the caller's memory: the runs if there are any, which are copied.
    static void add_ranges(std::vector<memory_range>& all, std::span<const part> runs, const message_data& whole) {
        for (const part& each : runs) add_range(all, each.data, each.bytes);
        if (runs.empty()) add_range(all, whole.data, whole.bytes());
    }
    void tell_status() noexcept {
        if (asked_.status_out() != nullptr) *asked_.status_out() = found();
    }
    void drop_run() noexcept override {
        office_.help_no_more();
        if (out()) office_.forget(*out());
        if (in()) office_.forget(*in());
        office_.in_flight().leave(*this);
        office_.in_flight().find_leader();
    }
    /// Called in a handler: the exception may only mean that one of several possible senders has returned.
    [[nodiscard]] bool continue_without_peer() noexcept {
        const std::exception_ptr thrown = std::current_exception();
        const int peer = office_.first_present();
        if (this->done() || !is_open() || peer < 0 || !is_departure(thrown)) return fail_with(thrown);
        try {
            this->comm_->progress();  // throws if it was a failure
        } catch (...) {
            return fail_with(thrown);
        }
        office_.note_gone(peer);
        if (office_.first_present() >= 0) return true;
        try {
            throw error(errc::peer_failed, text({this->what_, ": rank ", office_.rank(), " of ", office_.size(),
                                                 " waits for a message from any rank, but all others have returned"}));
        } catch (...) {
            return fail_with(std::current_exception());
        }
    }
    [[nodiscard]] bool fail_with(const std::exception_ptr& why) noexcept {
        this->fail(why);
        return false;
    }
    [[nodiscard]] static bool is_departure(const std::exception_ptr& thrown) noexcept {
        try {
            std::rethrow_exception(thrown);
        } catch (const error& e) {
            return e.code() == errc::peer_failed;
        } catch (...) {
            return false;
        }
    }

    static constexpr bool is_plain = std::is_same_v<Request, receive_request>;

    post_office& office_;
    [[no_unique_address]] typename hooks::place place_{};  // of the call that has made it
    Request asked_;
    bool is_detached_ = false, is_waited_for_ = false;
    std::size_t call_ = 0;
};

/// The copy made by a buffered send, kept until it has been sent.
template <communicator Comm>
class buffered_send final : public send_buffer::copy {
  public:
    buffered_send(Comm& comm, send_buffer& buffer, const sending& s)
        : copy(buffer, s.data.bytes()),
          type_(*s.data.type),
          copy_(s.data.data, s.data.data + s.data.bytes()),
          work_(comm, [&] { return copy_of(s); }) {
        work_.start();
    }
    [[nodiscard]] pending& work() noexcept override { return work_; }

  private:
    [[nodiscard]] message_request copy_of(const sending& s) {
        message_request own("buffered send");
        own.out.emplace(s.receiver, s.label, mode::standard, s.data);
        own.out->is_copy = true;
        own.out->data.data = copy_.data();
        own.out->data.type = &type_;
        return own;
    }
    message_type type_;  // the type of records is gone with the send
    std::vector<std::byte> copy_;
    message_task<Comm> work_;
};

template <communicator Comm, class Request>
void message_task<Comm, Request>::send_copy() {
    office_.buffer.keep(std::make_unique<buffered_send<Comm>>(*this->comm_, office_.buffer, *out()));
    office_.note_copied(*out());
}

inline void wait_for(pending& run) {
    until_done end(run);
    if (!run.done()) run.wait(end);
    run.report();
}
/// Runs a message to completion, without allocating memory for it.
template <communicator Comm, class Request>
status run_message(message_task<Comm, Request>& run) {
    run.set_waited_for();
    run.start();
    detail::wait_for(run);
    return run.found();
}
/// `make()` returns the request.
template <communicator Comm, class Make>
status run_message(Comm& comm, const Make& make) {
    message_task<carrier<Comm>, decltype(make())> run(carrier_of(comm), make);
    run.require_buffer();
    return run_message(run);
}
template <communicator Comm, class Make>
[[nodiscard]] operation start_message(Comm& comm, const Make& make) {
    auto made = std::make_unique<message_task<carrier<Comm>, decltype(make())>>(carrier_of(comm), make);
    made->require_buffer();
    made->start();
    return operation(std::move(made));
}
template <communicator Comm, class Make>
[[nodiscard]] persistent prepare_message(Comm& comm, const Make& make) {
    return persistent(std::make_unique<message_task<carrier<Comm>, decltype(make())>>(carrier_of(comm), make));
}

}  // namespace allfold::detail
