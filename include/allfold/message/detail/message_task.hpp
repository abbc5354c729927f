// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "allfold/engine/detail/memory_mark.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/engine/task.hpp"
#include "allfold/error.hpp"
#include "allfold/message/detail/message_data.hpp"
#include "allfold/message/detail/post_office.hpp"
#include "allfold/message/options.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/arrival_order.hpp"

/// @file
/// A send, a receive, both, or a probe, as an operation in the background of its communicator.

namespace allfold::detail {

template <communicator Comm>
class port_of final : public post_port {
  public:
    port_of(Comm& comm, post_office& office) noexcept : comm_(comm), office_(office) {}

    void progress() override { comm_.progress(); }
    [[nodiscard]] bool try_post(int receiver, lane on, const outgoing& message) override {
        return comm_.try_post(receiver, on, message);
    }
    [[nodiscard]] bool lends(std::size_t bytes) const override { return comm_.lends(bytes, true); }
    void take_in(int sender) override {
        using arrival_type = typename Comm::arrival_type;
        auto take = [&](const arrival_type& came) { take_envelope(sender, came); };
        while (comm_.try_receive(sender, envelopes_lane, take)) {
        }
        data_sink data{*this, sender};
        while (office_.next_expected(sender) != nullptr && comm_.try_receive(sender, data_lane, data)) {
        }
    }

  private:
    struct data_sink {
        port_of& self;
        int sender;

        [[nodiscard]] std::byte* destination(std::uint32_t signature, std::size_t bytes) const {
            const receiving& r = *self.office_.next_expected(sender);
            const bool fits = signature == signature_of_messages && bytes == bytes_for(r) && r.place.assign == nullptr;
            return fits ? r.place.data : nullptr;
        }
        template <class A>
        void operator()(A&& came) const {
            const receiving& r = *self.office_.next_expected(sender);
            if (came.signature() != signature_of_messages || came.bytes() != bytes_for(r)) self.refuse(sender);
            std::byte* from_place = came.packed();
            if (from_place == nullptr && !came.parts().empty()) from_place = came.parts().front().data;
            self.office_.take_data(sender, from_place == r.place.data ? nullptr : from_place);
        }
        [[nodiscard]] static std::size_t bytes_for(const receiving& r) noexcept {
            return r.found.elements * r.place.element_bytes;
        }
    };

    template <class A>
    void take_envelope(int sender, const A& came) {
        message_head head;
        if (came.signature() != signature_of_messages || came.bytes() < sizeof head) refuse(sender);
        std::span<const std::byte> data;
        if (const std::byte* const all = came.packed(); all != nullptr) {
            std::memcpy(&head, all, sizeof head);
            data = {all + sizeof head, came.bytes() - sizeof head};
        } else {
            const std::span<const part> parts = came.parts();
            std::memcpy(&head, parts[0].data, sizeof head);
            if (parts.size() > 1) data = {parts[1].data, parts[1].bytes};
        }
        if (data.size() != (head.what == message_head::kind::eager ? head.bytes : 0)) refuse(sender);
        office_.take_envelope(sender, head, data);
    }
    [[noreturn, gnu::cold]] void refuse(int sender) const {
        throw error(errc::transport, text({"receive: what came to rank ", comm_.rank(), " from rank ", sender,
                                           " is no message of its"}));
    }

    Comm& comm_;
    post_office& office_;
};

/// The office of a communicator, made when it is first asked for.
template <communicator Comm>
[[nodiscard]] post_office& office_of(Comm& comm) {
    static_assert(!Comm::has_groups,
                  "allfold: in a hierarchy only the first threads of processes exchange messages: make a team of those "
                  "who do, such as subset(comm, ranks)");
    std::shared_ptr<background::keepsake>& kept = comm.background().office;
    if (!kept) kept = std::make_shared<post_office>(comm.rank(), comm.size());
    return static_cast<post_office&>(*kept);
}

/// What is asked for, checked.
struct message_request {
    const char* what;
    std::optional<sending> out;
    std::optional<receiving> in;
    bool is_in_place = false;  // of both: what is sent is copied first
    status* told;
    std::optional<deadline> limit;

    message_request(const char* called, const message_options& said)
        : what(called), told(said.told), limit(said.limit) {}
};

template <communicator Comm>
class message_task final : public task<Comm> {
  public:
    message_task(Comm& comm, message_request&& asked)
        : task<Comm>(comm, asked.what, asked.limit),
          office_(office_of(comm)),
          out_(std::move(asked.out)),
          in_(std::move(asked.in)),
          told_(asked.told),
          is_in_place_(asked.is_in_place) {
        comm.background().attach(*this, &comm);
        require_buffer();
    }
    ~message_task() override { this->leave(); }

    /// Of a message that has been probed for: it is received at the first start.
    void give(std::unique_ptr<held_message> found) noexcept { given_ = std::move(found); }
    [[nodiscard]] status found() const noexcept { return in_ ? in_->found : status{}; }
    [[nodiscard]] std::unique_ptr<held_message> take_held() noexcept { return std::move(in_->held); }

    void start_prepared() override {
        if (!this->is_active()) {
            if (std::exchange(failed_alone_, false)) this->failure_ = nullptr;
            if (this->comm_ != nullptr) require_buffer();
        }
        task<Comm>::start_prepared();
    }
    [[nodiscard]] waiting blocked_on() const override {
        waiting where{this->what_};
        where.rounds = 1;
        where.on = envelopes_lane;
        where.call = call_;
        if (in_ && !in_->is_done)
            where.peer = is_open()                        ? office_.first_present()
                         : in_->found.source != null_rank ? in_->found.source
                                                          : in_->source;
        else if (out_ && !out_->is_done)
            where.peer = out_->receiver;
        return where;
    }
    void check() const override {}
    [[nodiscard]] bool cancel() noexcept override {
        if constexpr (requires { Comm::delays_messages; }) this->push();  // it may have come by now
        if (this->done() || !in_ || out_ || !office_.cancel(*in_)) return false;
        tell_status();
        this->complete();
        return true;
    }

    /// While it is open from whom its message comes it waits for each of the others in turn: who has returned is no
    /// cause to give up as long as another one is there.
    void wait(erased_work& what) override {
        require_outside_operator(*this->comm_, this->what_);
        for (bool again = true; again;) {
            try {
                this->wait_for(what);
                again = false;
            } catch (...) {
                again = goes_on_without_peer();
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
            static_cast<void>(goes_on_without_peer());
        }
    }
    void check_aside() noexcept override {
        if constexpr (Comm::shares_memory) look_around();
    }

  private:
    /// Throws, before anything is sent, where a buffered message has no room.
    void require_buffer() const {
        if (!out_ || out_->how != mode::buffered || out_->receiver == null_rank) return;
        office_.forget_kept();
        if (office_.buffered_bytes != 0) note_question_of_order();  // whether that is done by now
        const std::size_t bytes = out_->data.bytes();
        if (office_.buffered_bytes + bytes <= office_.buffer_bytes) return;
        throw error(errc::bad_argument,
                    text({"send: rank ", office_.rank(), " sends ", bytes, " bytes to rank ", out_->receiver,
                          " in mode::buffered, and of the ", office_.buffer_bytes, " bytes that it has attached ",
                          office_.buffer_bytes - office_.buffered_bytes, " are free"}));
    }
    [[nodiscard]] bool is_open() const noexcept { return in_ && in_->is_posted && in_->source == any_rank; }

    void announce_run() override {}
    void begin_run() override {
        port_of<Comm> port(*this->comm_, office_);
        if (out_ && is_in_place_) {
            copy_.assign(in_->place.data, in_->place.data + in_->place.bytes());
            out_->data.data = copy_.data();
        }
        if constexpr (requires { this->comm_->note_message(this->what_, -1, -1, -1); })
            call_ = this->comm_->note_message(this->what_, out_ ? out_->receiver : null_rank,
                                              in_ ? in_->source : null_rank, out_ ? out_->label : in_->label);
        if constexpr (requires { this->comm_->holds_send(); })
            if (out_ && out_->how == mode::standard && out_->may_wait && out_->receiver != null_rank)
                out_->is_held = this->comm_->holds_send();
        if constexpr (watching_memory<Comm>) mark_memory();
        if (in_) given_ ? office_.start(*in_, std::move(given_)) : office_.start(*in_);
        if (out_ && out_->how == mode::buffered && out_->receiver != null_rank)
            send_copy();
        else if (out_)
            office_.start(*out_, port);
    }
    void send_copy();
    bool poll_run() override {
        if constexpr (watching_memory<Comm>)
            if (in_ && !in_->is_done && mark_of_place() != place_mark_) note_change();
        if (!has_come() || office_.owes_answers()) {
            port_of<Comm> port(*this->comm_, office_);
            office_.turn(port, this->comm_->background().pass(), [this] { return has_come(); });
        }
        return has_come() && !office_.owes_answers();
    }
    [[nodiscard]] bool has_come() const noexcept { return (!out_ || out_->is_done) && (!in_ || in_->is_done); }
    void finish_run() override {
        if constexpr (watching_memory<Comm>)
            if (mark_of_sent() != sent_mark_) note_change();
        if (out_ && out_->failure) this->failure_ = out_->failure;
        if (in_ && in_->failure) this->failure_ = in_->failure;
        failed_alone_ = this->failure_ != nullptr;
        tell_status();
    }
    [[nodiscard]] std::uint64_t mark_of_sent() const {
        return out_ && out_->data.assign == nullptr ? mark_of_memory(out_->data.data, out_->data.bytes()) : 0;
    }
    /// As long as nothing has come.
    [[nodiscard]] std::uint64_t mark_of_place() const {
        return in_ && in_->place.assign == nullptr ? mark_of_memory(in_->place.data, in_->place.bytes()) : 0;
    }
    void mark_memory() {
        sent_mark_ = mark_of_sent();
        place_mark_ = mark_of_place();
    }
    void note_change() {
        this->comm_->note_changed(blocked_on());
        mark_memory();  // it is told once
    }
    void tell_status() noexcept {
        if (told_ != nullptr) *told_ = found();
    }
    void drop_run() noexcept override {
        if (out_) office_.forget(*out_);
        if (in_) office_.forget(*in_);
    }
    /// In a handler: what was thrown may be no more than that one of several possible senders has returned.
    [[nodiscard]] bool goes_on_without_peer() noexcept {
        const std::exception_ptr thrown = std::current_exception();
        const int peer = office_.first_present();
        if (this->done() || !is_open() || peer < 0 || !is_departure(thrown)) return give_up_with(thrown);
        try {
            this->comm_->progress();  // throws where it was a failure
        } catch (...) {
            return give_up_with(thrown);
        }
        office_.note_gone(peer);
        if (office_.first_present() >= 0) return true;
        try {
            throw error(errc::peer_failed, text({this->what_, ": rank ", office_.rank(), " of ", office_.size(),
                                                 " waits for a message from any rank, and all others have returned"}));
        } catch (...) {
            return give_up_with(std::current_exception());
        }
    }
    [[nodiscard]] bool give_up_with(const std::exception_ptr& why) noexcept {
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

    post_office& office_;
    std::optional<sending> out_;
    std::optional<receiving> in_;
    std::unique_ptr<held_message> given_;
    status* told_;
    std::size_t call_ = 0;
    std::uint64_t sent_mark_ = 0, place_mark_ = 0;  // where somebody watches memory
    bool is_in_place_;
    bool failed_alone_ = false;  // and the communicator is sound
    std::vector<std::byte> copy_;
};

/// The copy of a buffered send, until it has been sent.
template <communicator Comm>
class buffered_send final : public post_office::kept_send {
  public:
    buffered_send(Comm& comm, post_office& office, const sending& s)
        : office_(office), copy_(s.data.data, s.data.data + s.data.bytes()), work_(comm, copy_of(s)) {
        office_.buffered_bytes += copy_.size();
        work_.start();
    }
    ~buffered_send() override { office_.buffered_bytes -= copy_.size(); }
    [[nodiscard]] pending& work() noexcept override { return work_; }

  private:
    [[nodiscard]] message_request copy_of(const sending& s) {
        message_request own("send", message_options());
        own.out = s;
        own.out->how = mode::standard;
        own.out->may_wait = false;
        own.out->data.data = copy_.data();
        return own;
    }
    post_office& office_;
    std::vector<std::byte> copy_;
    message_task<Comm> work_;
};

template <communicator Comm>
void message_task<Comm>::send_copy() {
    office_.keep(std::make_unique<buffered_send<Comm>>(*this->comm_, office_, *out_));
    out_->is_done = true;
}

inline void wait_for(pending& run) {
    until_done end(run);
    if (!run.done()) run.wait(end);
    run.tell();
}
/// Runs one to its end, without an allocation of its own.
template <communicator Comm>
void run_message(message_task<Comm>& run) {
    run.start();
    wait_for(run);
}

// What is wrong with a message, before anything is sent.

[[noreturn, gnu::cold]] inline void reject_rank(const char* what, const char* named, int rank, int size) {
    throw error(errc::bad_rank, text({what, ": ", named, " rank ", rank, " is not in [0, ", size, ")"}));
}
[[noreturn, gnu::cold]] inline void reject_message(const char* what, int rank, const char* why) {
    throw error(errc::bad_argument, text({what, ": rank ", rank, " ", why}));
}

template <communicator Comm>
void require_data(const Comm& comm, const char* what, const message_data& data) {
    if (data.data == nullptr && data.elements != 0) reject_message(what, comm.rank(), "gives elements without memory");
}

template <communicator Comm>
[[nodiscard]] sending sending_of(const Comm& comm, const char* what, const message_data& data,
                                 const message_options& said) {
    const to there = *said.destination;
    if (!there.is_none && (there.rank < 0 || there.rank >= comm.size()))
        reject_rank(what, "the destination,", there.rank, comm.size());
    if (said.label.is_any) reject_message(what, comm.rank(), "sends with tag{any}, which is for receives");
    if (said.label.value < 0) reject_message(what, comm.rank(), "gives a negative tag");
    require_data(comm, what, data);
    if (said.how == mode::buffered && data.assign != nullptr)
        reject_message(what, comm.rank(), "sends objects in mode::buffered, which copies bytes");
    if (said.how == mode::ready) note_question_of_order();
    sending s;
    s.receiver = there.rank;
    s.label = said.label.value;
    s.how = said.how;
    s.data = data;
    return s;
}

template <communicator Comm>
[[nodiscard]] receiving receiving_of(const Comm& comm, const char* what, const message_data& place,
                                     const message_options& said) {
    const from there = *said.source;
    if (!there.is_special && (there.rank < 0 || there.rank >= comm.size()))
        reject_rank(what, "the source,", there.rank, comm.size());
    if (!said.label.is_any && said.label.value < 0) reject_message(what, comm.rank(), "gives a negative tag");
    require_data(comm, what, place);
    if (there.rank == any_rank) note_question_of_order();
    receiving r;
    r.source = there.rank;
    r.label = said.label.value;
    r.place = place;
    return r;
}

}  // namespace allfold::detail
