// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "allfold/engine/operation.hpp"
#include "allfold/error.hpp"
#include "allfold/message/detail/chain.hpp"
#include "allfold/message/detail/credit.hpp"
#include "allfold/message/detail/direct_read.hpp"
#include "allfold/message/detail/guess.hpp"
#include "allfold/message/detail/matching.hpp"
#include "allfold/message/detail/message_data.hpp"
#include "allfold/message/detail/message_head.hpp"
#include "allfold/message/detail/object_pool.hpp"
#include "allfold/message/detail/open_messages.hpp"
#include "allfold/message/detail/receive_note.hpp"
#include "allfold/message/detail/send_buffer.hpp"
#include "allfold/message/detail/sending.hpp"
#include "allfold/message/options.hpp"
#include "allfold/transport/background.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/arrival_order.hpp"
#include "allfold/transport/detail/copy.hpp"

/// @file
/// The state of a rank's messages on one communicator, independent of the transport.
///
///     eager        envelope and data in one                           the send is done
///     rendezvous   request  ->  clear (or refused)  ->  data          the send is done when its data has been read
///     between threads       request with the place of the data  ->  refused, which says that it has been read
///
/// Envelopes travel on one lane, the same on all ranks, and requested data on another, in the order in which it was
/// requested, so that a transport can put it straight into its destination buffer. Messages on these lanes are posted
/// as unordered: they wait for no collective, and no collective waits for them (transport/detail/flow_control.hpp),
/// even while they are unread.
///
/// Messages that a rank has sent to another one, and that have not been received, are held there up to the sender's
/// `credit`. A send beyond that is a rendezvous: only its envelope is held, and there are at most as many of these as
/// sends in flight. So every send gets its envelope to its receiver, and a matching receive finds it, however much is
/// held.

namespace allfold::detail {

/// What a post office requires of a communicator.
class post_port {
  public:
    post_port() = default;
    post_port(const post_port&) = delete;
    post_port& operator=(const post_port&) = delete;
    virtual void progress() = 0;
    [[nodiscard]] virtual bool try_post(record& r, const outgoing& message) = 0;
    virtual void take_in(int sender) = 0;
    [[nodiscard]] virtual bool lends(std::size_t bytes) const = 0;
    [[nodiscard]] virtual bool is_far(int receiver, std::size_t bytes) = 0;

  protected:
    ~post_port() = default;
};

/// Sends the answers that a rank owes while it has no other message in flight.
class answering : public background::work {
  public:
    virtual void start() noexcept = 0;
    /// Whether the communicator that it used has ended, and it sends no more.
    [[nodiscard]] bool is_over() const noexcept { return is_over_; }
    void orphan() noexcept override { is_over_ = true; }

  private:
    bool is_over_ = false;
};

class post_office final : public background::resource {
  public:
    post_office(int rank, int size, const direct_read& reading)
        : rank_(rank), peers_(static_cast<std::size_t>(size)), direct_reader_(rank, reading), matching_(size) {}
    ~post_office() override {
        for (auto& each : posted_)
            if (each->lent.load(std::memory_order_acquire) != 0) static_cast<void>(each.release());
    }

    void forget_readers() noexcept override {
        for (const auto& each : posted_) each->lent.store(0, std::memory_order_relaxed);
    }

    [[nodiscard]] int rank() const noexcept { return rank_; }
    [[nodiscard]] int size() const noexcept { return static_cast<int>(peers_.size()); }

    void start(sending& s, post_port& port);
    void start(receiving& r);
    /// Starts the receive of a message that a probe has found.
    void start(receiving& r, std::unique_ptr<held_message> found) {
        r.is_done = false;
        r.failure = nullptr;
        matching_.awaited().begin(r.place.bytes());
        match(r, std::move(found));
    }
    /// True if it had not been matched: then it never will be.
    [[nodiscard]] bool cancel(receiving& r) noexcept {
        if (!r.is_posted) return false;
        matching_.withdraw(r);
        r.is_done = true;
        r.found = {};
        r.found.cancelled = true;
        return true;
    }
    /// True if nothing of it has left this rank: then nothing ever will.
    [[nodiscard]] bool cancel(sending& s) noexcept {
        if (s.carrier == nullptr || s.is_done || !s.carrier->head.has_envelope()) return false;
        const bool is_eager = s.carrier->head.what == kind::eager;
        if (!unqueue(*s.carrier)) return false;
        s.carrier = nullptr;
        if (is_eager) with(s.receiver).due.note_withdrawn(s.payload().bytes);
        forget(s);
        return true;
    }
    // Receives that are only notes.

    std::unique_ptr<note_keeper> keeper;
    std::unique_ptr<answering> answers;
    [[nodiscard]] bool holds(int source, int tag) const { return matching_.holds(source, tag); }
    [[nodiscard]] std::size_t notes() const noexcept { return notes_; }
    [[gnu::always_inline]] void note(receive_note& r) {
        matching_.post_exact(r);
        if (++notes_ == 1) keeper->start();
    }
    /// Turns all notes into calls.
    void promote_all() {
        for_each_note([](receive_note& each) { static_cast<void>(each.become_call()); });
    }
    /// The same on a communicator that is broken: a note for whose call there is no memory is lost.
    void promote_or_lose_all() noexcept {
        for_each_note([this](receive_note& each) {
            try {
                static_cast<void>(each.become_call());
            } catch (...) {
                lose(each);
            }
        });
    }
    void lose(receive_note& r) noexcept {
        if (r.is_posted) matching_.withdraw_exact(r);
        forget_note();
        r.lose();
    }
    /// Replaces a note by the call that it becomes, in the same position.
    void replace(receive_note& r, receiving& by) {
        by.is_done = false;
        if (r.is_posted) matching_.replace(r, by);
        forget_note();
    }

    /// The operation is abandoned with everything in flight: removes all references to it.
    void forget(sending& s) noexcept;
    void forget(receiving& r) noexcept;

    /// The number of the next send that starts.
    [[nodiscard]] std::uint32_t next_number() const noexcept { return sends_ + 1; }
    /// The unfinished operations of this rank.
    [[nodiscard]] open_messages& in_flight() noexcept { return in_flight_; }
    /// Ends the operations for which everything has arrived.
    void settle() noexcept {
        if (owed_ != 0) return keep_answering();
        if (!in_flight_.end_one()) return;
        while (owed_ == 0 && in_flight_.end_one()) {
        }
        in_flight_.find_leader();
        keep_answering();
    }
    /// Makes sure that answers still to be sent are sent, though this rank may not wait for any message.
    void keep_answering() noexcept {
        if (owed_ != 0 && notes_ == 0 && in_flight_.is_empty()) answers->start();
    }

    /// Sends what can be sent, and takes in what has arrived; at most once in each pass over the operations in flight.
    void progress(post_port& port, std::uint64_t pass = 0) {
        if (pass != 0 && pass == latest_pass_) return;
        latest_pass_ = pass;
        port.progress();
        if (queued_ != 0) flush(port);
        for (int r = 0; r < size(); ++r)
            if (r != rank_) port.take_in(r);
        if (queued_ != 0) flush(port);
        collect();
    }

    /// Called by a waiting rank: if another rank is reading one of its sends, helps it copy.
    void help() noexcept { direct_reader_.help(); }
    /// The rank abandons its communicator: a rank that still reads one of its sends may call for help, and the send may
    /// be gone by then.
    void help_no_more() noexcept { direct_reader_.help_no_more(); }

    /// Takes in what has arrived from one rank, which lets that rank go on, and reports what has been taken in.
    void progress_with(int peer, post_port& port) {
        port.progress();
        if (peer != rank_) port.take_in(peer);
        if (queued_ != 0) flush(port);
        collect();
    }

    /// Removes and returns the first held message that `r` matches; null if there is none.
    [[nodiscard]] std::unique_ptr<held_message> take_held(const receiving& r) { return matching_.take_held(r); }
    /// Puts back a message that a probe has found, and that was not received after all.
    void put_back(std::unique_ptr<held_message> unread);

    /// A message has arrived on the lane of envelopes: its head and, if it is eager, its data.
    void take_envelope(int source, const message_head& head, std::span<const std::byte> data);
    /// The receive for which the next data from `source` is; null if none is expected.
    [[nodiscard]] receiving* next_expected(int source) noexcept {
        return static_cast<receiving*>(with(source).expected.first());
    }
    /// That data has arrived at `from_place`, which may be its destination already.
    void take_data(int source, const std::byte* from_place);
    /// The stored name of a type, which another process sends with its first message of that type.
    [[nodiscard]] const char* name_of(std::uint64_t type, const char* text) {
        return type_names_.try_emplace(type, text).first->second.c_str();
    }
    /// Whether this rank has sent the name of a type to a receiver.
    [[nodiscard]] bool has_named(int receiver, std::uint64_t type) const noexcept {
        const std::vector<std::uint64_t>& named = peers_[static_cast<std::size_t>(receiver)].named;
        return std::find(named.rbegin(), named.rend(), type) != named.rend();
    }
    void note_named(int receiver, std::uint64_t type) { with(receiver).named.push_back(type); }

    /// A rank has returned, and will send nothing more.
    void note_gone(int peer) noexcept { with(peer).is_gone = true; }
    /// The first other rank that may still send something; -1 if all have returned.
    [[nodiscard]] int first_present() const noexcept {
        for (int r = 0; r < size(); ++r)
            if (r != rank_ && !peers_[static_cast<std::size_t>(r)].is_gone) return r;
        return -1;
    }
    /// Visits the held messages in order of arrival.
    template <class Visit>
    void for_each_held(Visit visit) const {
        matching_.for_each_held(visit);
    }

    // The short path (short_message.hpp): messages that are posted, or found, at once.

    /// Whether no message to this receiver is queued, and it would hold that many more bytes.
    template <class Far>
    [[nodiscard, gnu::always_inline]] bool may_post_at_once(int receiver, std::size_t bytes, Far is_far) {
        return owed_ == 0 && with(receiver).queue.empty() && has_room(receiver, bytes) &&
               is_held(receiver, bytes, is_far);
    }
    [[nodiscard]] bool has_room(int receiver, std::size_t bytes) noexcept { return with(receiver).due.has_room(bytes); }
    /// Whether a message is short enough to be held by its receiver, rather than read in the sender's memory.
    /// `is_far()`: whether the receiver's core is far away.
    template <class Far>
    [[nodiscard, gnu::always_inline]] bool is_held(int receiver, std::size_t bytes, Far is_far) const {
        if (bytes <= longest_copied) [[likely]]
            return true;
        if (!direct_reader_.reaches(receiver)) return bytes <= credit::longest_message;
        const credit& due = peers_[static_cast<std::size_t>(receiver)].due;
        return bytes <= longest_held && due.has_room(bytes, units_held_near) &&
               (due.has_room(bytes, units_held_far) || !is_far());
    }
    [[nodiscard, gnu::always_inline]] message_head eager_head(const message_data& data, int receiver,
                                                              int tag) noexcept {
        message_head head = head_of(data, tag);
        head.what = kind::eager;
        head.freed = with(receiver).due.freed();
        return head;
    }
    /// Writes it to memory that another core holds.
    [[gnu::always_inline]] void write_eager_head(std::byte* to, const message_data& data, int receiver, int tag,
                                                 bool names_type) noexcept {
        message_head head = eager_head(data, receiver, tag);
        if (!names_type) head.type_name = nullptr;
        head.write_words(to);
    }
    void note_posted(int receiver, std::size_t bytes) noexcept {
        credit& due = with(receiver).due;
        due.note_sent(bytes);
        due.note_reported();
    }
    /// Takes in a message that has arrived, if that takes no more than a copy to where a note receives it. `all`: its
    /// head, and its data.
    [[nodiscard, gnu::always_inline]] bool take_into_note(int source, const std::byte* all, std::size_t bytes) {
        message_head head;
        std::memcpy(&head, all, sizeof head);
        if (head.what != kind::eager || head.how != mode::standard || head.bytes() != bytes - sizeof head) return false;
        receive_note* const note = note_for(source, head.tag, head.type, head.element_bytes, head.elements);
        if (note == nullptr) return false;
        with(source).due.note_freed(head.freed);
        free(source, bytes - sizeof head);
        copy_short(note->place.data, all + sizeof head, bytes - sizeof head);
        end(*note, source, head.tag, head.elements);
        return true;
    }
    /// The same for a message from this rank itself.
    [[nodiscard, gnu::always_inline]] bool take_own_into_note(const message_data& data, int tag) {
        if (!with(rank_).queue.empty()) return false;
        receive_note* const note = note_for(rank_, tag, data.type->hash(), data.type->element_bytes, data.elements);
        if (note == nullptr) return false;
        std::memmove(note->place.data, data.data, data.bytes());
        end(*note, rank_, tag, data.elements);
        return true;
    }
    /// Whether a receive that is called now would match the next envelope, since nothing is held or posted.
    [[nodiscard]] bool receives_at_once() const noexcept { return owed_ == 0 && matching_.is_empty(); }
    /// Whether a receive that starts is likely to find its message there already. Looking in vain takes the line away
    /// from the sender that is about to write it: a halo of six faces of 4 bytes takes 0.95x the time without that.
    [[nodiscard]] bool is_worth_a_look(int source) noexcept { return with(source).early.is_likely(); }
    void note_look(int source, bool found) noexcept { with(source).early.note(found); }
    void note_received(int source, const message_head& head) {
        with(source).due.note_freed(head.freed);
        free(source, head.bytes());
    }

    /// Whether there are answers still to be sent that no operation of this rank waits for.
    [[nodiscard]] bool owes_answers() const noexcept { return owed_ != 0; }

    /// A buffered send is done, since it has been copied.
    void note_copied(sending& of) noexcept { finish(of); }
    send_buffer buffer;

  private:
    using kind = message_head::kind;

    struct counterpart {
        chain<record> queue;                          // owns them
        chain<posted_receive, by_envelope> expected;  // `receiving`, in the order in which their data arrives
        std::vector<std::uint64_t> named;             // the types whose names the peer knows
        credit due;
        guess early;
        bool is_gone = false;

        ~counterpart() {
            while (record* const each = queue.first()) delete each;
        }
    };

    [[nodiscard]] counterpart& with(int peer) noexcept { return peers_[static_cast<std::size_t>(peer)]; }
    [[nodiscard, gnu::always_inline]] static message_head head_of(const message_data& data, int tag) noexcept {
        message_head head;
        head.tag = tag;
        head.type = data.type->hash();
        head.type_name = data.type->name;
        head.elements = data.elements;
        head.element_bytes = data.type->is_encoded() ? 0 : static_cast<std::uint32_t>(data.type->element_bytes);
        return head;
    }

    [[nodiscard]] const char* name_in(const message_head& head) const {
        return head.type_name != nullptr ? head.type_name : type_names_.at(head.type).c_str();
    }

    void finish(sending& s) noexcept {
        direct_reader_.withdraw(s);
        s.carrier = nullptr;
        s.is_done = true;
        in_flight_.note_done(s.owner);
    }
    void finish(receiving& r) noexcept {
        r.refusal = nullptr;
        r.is_done = true;
        in_flight_.note_done(r.owner);
    }

    [[nodiscard]] record& queue_for(int receiver, kind what);
    /// Removes a message that has not left this rank yet; false if it has.
    [[nodiscard]] bool unqueue(const record& unsent) noexcept {
        const std::unique_ptr<record> found(
            with(unsent.receiver).queue.find([&](const record& each) { return &each == &unsent; }));
        if (found) --queued_;
        return found != nullptr;
    }
    void flush(post_port& port);
    [[nodiscard]] bool post(record& r, post_port& port);
    void take_own(const record& r);
    void retire(std::unique_ptr<record> finished) {
        const bool is_refusal = finished->head.what == kind::refused || finished->head.what == kind::unexpected;
        if (is_refusal && finished->refused == nullptr) --owed_;
        if (finished->asks != nullptr) finished->asks->carrier = nullptr;
        if (finished->sent != nullptr) finish(*finished->sent);
        if (finished->refused != nullptr) finish(*finished->refused);
        spare_.give(std::move(finished));
    }
    void collect() {
        for (std::size_t i = 0; i < posted_.size();) {
            if (posted_[i]->lent.load(std::memory_order_acquire) != 0) {
                ++i;
                continue;
            }
            std::unique_ptr<record> finished = std::move(posted_[i]);
            posted_[i] = std::move(posted_.back());
            posted_.pop_back();
            retire(std::move(finished));
        }
    }

    [[nodiscard]] std::unique_ptr<held_message> make_held(int source, const message_head& head,
                                                          std::span<const std::byte> data);
    /// The note that a message of plain bytes matches, if it has room for it; null if there is none.
    [[nodiscard, gnu::always_inline]] receive_note* note_for(int source, int tag, std::uint64_t type,
                                                             std::size_t element_bytes, std::uint64_t elements) const {
        posted_receive* const found = owed_ == 0 ? matching_.find_exact(source, tag) : nullptr;
        if (found == nullptr || !found->is_note || !found->takes_bytes(type, element_bytes, elements)) return nullptr;
        return static_cast<receive_note*>(found);
    }
    /// Its message has been copied.
    [[gnu::always_inline]] void end(receive_note& note, int source, int tag, std::uint64_t elements) noexcept {
        matching_.withdraw_exact(note);
        forget_note();
        note.end({source, tag, static_cast<std::size_t>(elements), false});
    }
    template <class Visit>
    void for_each_note(Visit visit) const {
        matching_.for_each_waiting([&](posted_receive& r) {
            if (r.is_note) visit(static_cast<receive_note&>(r));
        });
    }
    void forget_note() noexcept {
        if (--notes_ == 0 && owed_ == 0) keeper->leave();
    }
    void match(receiving& r, std::unique_ptr<held_message> with_this);
    void match_posted(posted_receive& r, int source, const message_head& head, std::span<const std::byte> data);
    /// Whether the message is just bytes that fit, and its sender waits for no answer.
    [[nodiscard]] static bool takes_as_is(const posted_receive& r, const message_head& head) noexcept {
        return head.what == kind::eager && head.how == mode::standard && !r.is_probe &&
               r.takes_bytes(head.type, head.element_bytes, head.elements);
    }
    void match(receiving& r, int source, const message_head& head, std::span<const std::byte> data);
    void take_as_is(const posted_receive& r, int source, std::span<const std::byte> data) {
        free(source, data.size());
        if (source == rank_)
            std::memmove(r.place.data, data.data(), data.size());
        else
            copy_short(r.place.data, data.data(), data.size());
    }
    [[nodiscard]] bool may_be_eager(const sending& s, std::size_t bytes, bool waits, post_port& port) const;
    [[nodiscard]] bool streams(const receiving& r) noexcept {
        return matching_.awaited().exceed_cache(r.found.elements * r.place.type->element_bytes);
    }
    [[nodiscard]] std::exception_ptr objection(const receiving& r, int source, const message_head& head) const;
    void free(int source, std::size_t bytes) {
        if (with(source).due.free(bytes)) static_cast<void>(queue_for(source, kind::news));
    }
    void refuse(int source, const message_head& head, kind why, receiving* r) {
        record& answer = queue_for(source, why);
        answer.head.number = head.number;
        answer.refused = r;
        if (r == nullptr)
            ++owed_;
        else
            r->refusal = &answer;
    }
    void handle_answer(int source, const message_head& head);

    int rank_;
    std::vector<counterpart> peers_;
    direct_reader direct_reader_;
    matching matching_;
    open_messages in_flight_;
    std::unordered_map<std::uint32_t, sending*> asked_;
    std::unordered_map<std::uint64_t, std::string> type_names_;
    std::vector<std::unique_ptr<record>> posted_;
    object_pool<record> spare_;
    object_pool<held_message> spare_held_;
    std::size_t queued_ = 0;
    std::uint32_t sends_ = 0;
    std::uint64_t latest_pass_ = 0;
    std::size_t owed_ = 0, notes_ = 0;
};

inline record& post_office::queue_for(int receiver, kind what) {
    std::unique_ptr<record> made = spare_.take();
    made->head = {};
    made->head.what = what;
    made->parts[1] = {nullptr, 0};
    made->receiver = receiver;
    made->on = envelopes_lane;
    made->copyable = true;
    made->sent = nullptr;
    made->refused = nullptr;
    made->asks = nullptr;
    record& queued = *made.release();
    with(receiver).queue.push_back_alone(queued);
    ++queued_;
    return queued;
}

/// Whether the data is sent along with its envelope, if there is room for it.
inline bool post_office::may_be_eager(const sending& s, std::size_t bytes, bool waits, post_port& port) const {
    if (s.how == mode::ready || s.data.type->assign != nullptr) return false;
    if (s.has_no_limit) return true;
    const bool is_read_directly = direct_reader_.reaches(s.receiver) && !s.data.type->is_encoded();
    if (waits && is_read_directly && bytes > longest_copied_synchronous) return false;
    return is_held(s.receiver, bytes, [&] { return port.is_far(s.receiver, bytes); }) &&
           !port.lends(sizeof(message_head) + bytes);
}

inline void post_office::start(sending& s, post_port& port) {
    s.failure = nullptr;
    s.is_done = false;
    if (s.receiver == null_rank) return finish(s);
    counterpart& there = with(s.receiver);
    if (s.data.type->is_encoded()) {
        s.encoded.clear();
        s.data.type->encode(s.data.data, s.data.elements, s.encoded);
        s.encoded_bytes = s.encoded.size();
    }
    const std::size_t bytes = s.payload().bytes;
    const bool waits = !s.is_held || s.how == mode::synchronous;  // to be told that it has been received
    bool is_eager = may_be_eager(s, bytes, waits, port);
    if (is_eager && !s.has_no_limit && !there.due.has_room(bytes)) {
        progress(port);  // this may free some
        is_eager = there.due.has_room(bytes);
    }
    record& asking = queue_for(s.receiver, is_eager ? kind::eager : kind::request);
    const kind what = asking.head.what;
    asking.head = head_of(s.data, s.label);
    asking.head.what = what;
    asking.head.how = s.how;
    asking.head.number = s.number = ++sends_;
    if (is_eager) {
        there.due.note_sent(bytes);
        asking.parts[1] = s.payload();
        if (waits) asking.head.how = mode::synchronous;
    } else if (s.data.type->is_encoded()) {
        asking.parts[1] = {reinterpret_cast<std::byte*>(&s.encoded_bytes), sizeof s.encoded_bytes};
    } else if (direct_reader_.is_possible()) {
        direct_reader_.offer(
            s, [&](std::size_t n) { return !matching_.awaited().exceed_cache(n) && port.is_far(s.receiver, n); });
        asking.parts[1] = {reinterpret_cast<std::byte*>(&s.read_from), sizeof s.read_from};
    }
    s.carrier = &asking;
    if (is_eager && !waits) {
        asking.sent = &s;
    } else {
        asking.asks = &s;
        asked_.emplace(s.number, &s);
    }
    flush(port);
}

inline void post_office::start(receiving& r) {
    r.failure = nullptr;
    r.found = {};
    r.is_done = false;
    if (r.source == null_rank) return finish(r);
    if (std::unique_ptr<held_message> found = take_held(r)) {
        matching_.awaited().begin(r.place.bytes());
        return match(r, std::move(found));
    }
    matching_.post_any(r);
}

inline void post_office::forget(sending& s) noexcept {
    if (const auto asked = asked_.find(s.number); asked != asked_.end() && asked->second == &s) asked_.erase(asked);
    const bool has_left = s.carrier != nullptr && !unqueue(*s.carrier);  // or it would be sent without its data
    if (has_left) s.carrier->sent = s.carrier->asks = nullptr;
    s.carrier = nullptr;
    s.is_done = true;
}

inline void post_office::forget(receiving& r) noexcept {
    if (r.is_posted) matching_.withdraw(r);
    if (r.refusal != nullptr) {
        r.refusal->refused = nullptr;
        ++owed_;
    }
    r.refusal = nullptr;
    if (!r.is_done) chain<posted_receive, by_envelope>::remove(r);  // its data may be expected
    r.is_done = true;
}

/// Posts the queued messages to each rank, in order, as far as there is room.
inline void post_office::flush(post_port& port) {
    for (const counterpart& there : peers_) {
        if (queued_ == 0) return;
        while (record* const first = there.queue.first()) {
            if (!post(*first, port)) break;
            std::unique_ptr<record> sent(first);
            chain<record>::remove(*first);
            --queued_;
            if (sent->lent.load(std::memory_order_acquire) != 0)
                posted_.push_back(std::move(sent));
            else
                retire(std::move(sent));
        }
    }
}

inline bool post_office::post(record& r, post_port& port) {
    if (r.receiver == rank_) {
        take_own(r);
        return true;
    }
    counterpart& there = with(r.receiver);
    r.head.freed = there.due.freed();
    r.parts[0] = {reinterpret_cast<std::byte*>(&r.head), sizeof r.head};
    const std::size_t count = r.has_head() && r.parts[1].bytes != 0 ? 2 : 1;
    outgoing message{.parts = {r.has_head() ? r.parts.data() : &r.parts[1], count}};
    message.bytes = (r.has_head() ? sizeof r.head : 0) + r.parts[1].bytes;
    message.copyable = r.copyable;
    message.signature = signature_of_messages;
    message.lent = &r.lent;
    message.unordered = true;
    message.copied = r.has_head();
    if (!port.try_post(r, message)) return false;
    if (r.has_head()) there.due.note_reported();
    return true;
}

/// Delivers a message from this rank to itself.
inline void post_office::take_own(const record& r) {
    if (r.on == data_lane) return take_data(rank_, r.parts[1].data);
    message_head head = r.head;
    head.freed = with(rank_).due.freed();
    take_envelope(rank_, head, {r.parts[1].data, r.parts[1].bytes});
}

inline void post_office::take_envelope(int source, const message_head& head, std::span<const std::byte> data) {
    with(source).due.note_freed(head.freed);
    if (head.what == kind::news) return;
    if (!head.has_envelope()) return handle_answer(source, head);
    if (posted_receive* const r = matching_.take_receive(source, head.tag)) return match_posted(*r, source, head, data);
    if (head.how == mode::ready) return refuse(source, head, kind::unexpected, nullptr);
    matching_.hold(make_held(source, head, data));
}

inline std::unique_ptr<held_message> post_office::make_held(int source, const message_head& head,
                                                            std::span<const std::byte> data) {
    std::unique_ptr<held_message> made = spare_held_.take();
    made->source = source;
    made->head = head;
    made->there.reset();
    if (direct_reader_.has_address(head, data))
        made->there = direct_reader::address_in(data);
    else
        made->data.assign(data.begin(), data.end());
    return made;
}

inline void post_office::match_posted(posted_receive& r, int source, const message_head& head,
                                      std::span<const std::byte> data) {
    if (!r.is_note) return match(static_cast<receiving&>(r), source, head, data);
    match(static_cast<receive_note&>(r).become_call(), source, head, data);
}

inline void post_office::match(receiving& r, std::unique_ptr<held_message> with_this) {
    if (!r.is_probe) {
        match(r, with_this->source, with_this->head, with_this->rest());
        return spare_held_.give(std::move(with_this));
    }
    r.found = with_this->about();
    r.held = std::move(with_this);
    finish(r);
}

inline void post_office::match(receiving& r, int source, const message_head& head, std::span<const std::byte> data) {
    if (r.source == any_rank)  // no step of a search delivers a rank's own message: it depends on what has come before
        source == rank_ ? note_question_of_the_past() : note_question_of_messages();
    if (takes_as_is(r, head)) [[likely]] {
        r.found = head.from_rank(source);
        take_as_is(r, source, data);
        return finish(r);
    }
    if (r.is_probe) {
        std::unique_ptr<held_message> kept = make_held(source, head, data);
        matching_.number(*kept);
        return match(r, std::move(kept));
    }
    r.found = head.from_rank(source);
    r.failure = objection(r, source, head);
    if (head.what == kind::eager) {
        free(source, data.size());
        if (head.how == mode::synchronous) refuse(source, head, kind::refused, nullptr);  // which its sender waits for
        if (!r.failure) put_in_place(r, data.data(), data.size(), streams(r));
        finish(r);
    } else if (r.failure) {
        refuse(source, head, kind::refused, &r);
    } else if (direct_reader_.has_address(head, data)) {
        direct_reader_.read(r, source, direct_reader::address_in(data), streams(r));
        refuse(source, head, kind::refused, nullptr);  // tells its sender that it has been read
        finish(r);
    } else {
        r.coming_bytes = head.bytes();
        if (head.is_encoded()) {
            std::uint64_t bytes = 0;
            std::memcpy(&bytes, data.data(), sizeof bytes);
            r.coming_bytes = static_cast<std::size_t>(bytes);
            r.encoded.resize(r.coming_bytes);
        }
        queue_for(source, kind::clear).head.number = head.number;
        with(source).expected.push_back(r);
    }
}

/// What is wrong with a message that a receive has matched; null if nothing is.
inline std::exception_ptr post_office::objection(const receiving& r, int source, const message_head& head) const {
    if (head.type != r.place.type->hash())
        return std::make_exception_ptr(
            error(errc::mismatch,
                  text({"receive: rank ", rank_, " receives elements of type ", r.place.type->name, ", but rank ",
                        source, " sent elements of type ", name_in(head), ", with tag ", head.tag})));
    if (!head.is_encoded() && head.element_bytes != r.place.type->element_bytes)
        return std::make_exception_ptr(
            error(errc::mismatch,
                  text({"receive: rank ", rank_, " receives rows of ", r.place.type->element_bytes, " bytes, but rank ",
                        source, " sent rows of ", head.element_bytes, ", with tag ", head.tag})));
    if (head.elements > r.place.elements)
        return std::make_exception_ptr(
            error(errc::truncated, text({"receive: rank ", rank_, " has room for ", text_of_elements(r.place.elements),
                                         ", but rank ", source, " sent ", head.elements, ", with tag ", head.tag})));
    return nullptr;
}

inline void post_office::take_data(int source, const std::byte* from_place) {
    receiving& r = *next_expected(source);
    chain<posted_receive, by_envelope>::remove(r);
    put_in_place(r, from_place, r.coming_bytes, streams(r));
    finish(r);
}

/// A receive has matched a send of this rank, or has refused it.
inline void post_office::handle_answer(int source, const message_head& head) {
    const auto asked = asked_.find(head.number);
    if (asked == asked_.end()) return;
    sending& s = *asked->second;
    asked_.erase(asked);
    if (head.what == kind::clear) {
        record& data = queue_for(source, kind::news);
        data.on = data_lane;
        data.parts[1] = s.payload();
        data.copyable = s.data.type->assign == nullptr;
        data.sent = &s;
        s.carrier = &data;
        return;
    }
    if (head.what == kind::unexpected)
        s.failure = std::make_exception_ptr(error(
            errc::bad_argument, text({"send: rank ", rank_, " sends to rank ", source, " with tag ", s.label,
                                      " in mode::ready, but rank ", source, " had not posted a receive for it"})));
    if (s.carrier == nullptr) return finish(s);
    s.carrier->asks = nullptr;  // its data is still lent
    s.carrier->sent = &s;
}

inline void post_office::put_back(std::unique_ptr<held_message> unread) {
    posted_receive* const r = matching_.take_receive(unread->source, unread->label());
    if (r == nullptr) return matching_.put_back(std::move(unread));
    match(r->is_note ? static_cast<receive_note&>(*r).become_call() : static_cast<receiving&>(*r), std::move(unread));
}

}  // namespace allfold::detail
