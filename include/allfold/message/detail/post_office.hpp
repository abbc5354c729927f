// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "allfold/engine/operation.hpp"
#include "allfold/error.hpp"
#include "allfold/message/detail/message_data.hpp"
#include "allfold/message/options.hpp"
#include "allfold/transport/background.hpp"
#include "allfold/transport/communicator.hpp"

/// @file
/// What a rank knows of its messages on one communicator, whatever that is made of.
///
///     eager        envelope and data in one                           the send is done
///     rendezvous   request  ->  clear (or refused)  ->  data          the send is done when its data has been read
///
/// Envelopes travel on one lane, which is the same on all ranks, and data that was asked for on another one, in the
/// order in which it was asked for: so a transport may put it where it belongs. Messages of those lanes are posted as
/// unordered ones: they wait for no collective, and none waits for them (transport/detail/flow_control.hpp), though
/// nobody may read them yet.
///
/// What a rank has sent to another one, and nobody has received, is held there up to `most_held` units. A send beyond
/// that is a rendezvous: its envelope alone is held, and there are no more of those than sends in flight. So every send
/// gets its envelope to its receiver, and a receive that matches finds it, however much is held.

namespace allfold::detail {

inline constexpr lane envelopes_lane = 0x7ffffffe, data_lane = 0x7fffffff;  // after 2^31 collectives, one each
inline constexpr std::uint32_t signature_of_messages = 0x6d736701;

/// What a message of an office says first.
struct message_head {
    enum class kind : std::uint8_t { eager, request, clear, refused, news };
    kind what = kind::news;
    mode how = mode::standard;
    bool is_object = false;
    bool was_unexpected = false;  // of a refusal: a ready send without its receive
    std::int32_t tag = 0;
    std::uint64_t bytes = 0;
    std::uint64_t type = 0;
    std::uint32_t number = 0;  // of the send
    std::uint32_t freed = 0;   // units that the sender of this has let go of, of what it holds of the receiver
    std::uint32_t element_bytes = 1;
    std::array<char, 27> type_name{};  // the begin of it
    bool is_awaited = false;           // of an eager one: its sender goes on when a receive has been matched

    [[nodiscard]] std::size_t elements() const noexcept {
        return static_cast<std::size_t>(element_bytes == 0 ? 0 : bytes / element_bytes);
    }
};
static_assert(sizeof(message_head) == 64);

/// What an office asks of a communicator.
class post_port {
  public:
    post_port() = default;
    post_port(const post_port&) = delete;
    post_port& operator=(const post_port&) = delete;
    virtual void progress() = 0;
    [[nodiscard]] virtual bool try_post(int receiver, lane on, const outgoing& message) = 0;
    virtual void take_in(int sender) = 0;
    [[nodiscard]] virtual bool lends(std::size_t bytes) const = 0;

  protected:
    ~post_port() = default;
};

/// A message that nobody has received yet.
struct held_message {
    int source = 0;
    message_head head;
    std::vector<std::byte> data;  // of an eager one
    std::uint64_t number = 0;     // in the order in which they came
};

/// A send.
struct sending {
    int receiver = null_rank;
    int label = 0;
    mode how = mode::standard;
    message_data data;
    std::uint32_t number = 0;
    bool may_wait = true;  // in standard mode: analysis/explore decides whether it
    bool is_held = true;   // is held by its receiver, or waits
    bool is_done = true;
    std::exception_ptr failure;
};

/// A receive or a probe.
struct receiving {
    int source = null_rank;
    int label = any_tag;
    bool is_probe = false;
    message_data place;
    status found;
    std::unique_ptr<held_message> held;  // by a probe; or what is to be received
    bool is_posted = false;              // and not matched
    bool is_done = true;
    std::exception_ptr failure;

    [[nodiscard]] bool takes(int from_rank, int under) const noexcept {
        return (source == any_rank || source == from_rank) && (label == any_tag || label == under);
    }
};

class post_office final : public background::keepsake {
  public:
    post_office(int rank, int size) : rank_(rank), peers_(static_cast<std::size_t>(size)) {}
    ~post_office() override {
        for (auto& each : posted_)
            if (each->lent.load(std::memory_order_acquire) != 0) static_cast<void>(each.release());
    }

    static constexpr std::uint32_t unit = 64, most_held = 4096;  // 256 KiB of each rank
    static constexpr std::size_t longest_eager = std::size_t{unit} * most_held / 4;

    [[nodiscard]] int rank() const noexcept { return rank_; }
    [[nodiscard]] int size() const noexcept { return static_cast<int>(peers_.size()); }

    void start(sending& s, post_port& port);
    void start(receiving& r);
    /// Of a message that a probe has found.
    void start(receiving& r, std::unique_ptr<held_message> found) {
        r.is_done = false;
        r.failure = nullptr;
        match(r, std::move(found));
    }
    /// True if it had not been matched: then it never is.
    [[nodiscard]] bool cancel(receiving& r) noexcept {
        if (!r.is_posted) return false;
        std::erase(waiting_, &r);
        r.is_posted = false;
        r.is_done = true;
        r.found = {};
        r.found.cancelled = true;
        return true;
    }
    /// They give up, with all that is in flight: nothing refers to them any more.
    void forget(sending& s) noexcept;
    void forget(receiving& r) noexcept;

    /// Sends what can be, and takes in what has come unless that was all that was wanted; once in each pass along what
    /// is in flight, if it is in one.
    template <class IsEnough>
    void turn(post_port& port, std::uint64_t pass, IsEnough is_enough) {
        if (pass != 0 && pass == latest_pass_) return;
        latest_pass_ = pass;
        port.progress();
        if (queued_ != 0) flush(port);
        if (is_enough()) return;
        for (int r = 0; r < size(); ++r)
            if (r != rank_) port.take_in(r);
        if (queued_ != 0) flush(port);
        collect();
    }
    void turn(post_port& port) {
        turn(port, 0, [] { return false; });
    }

    /// The first message held that fits; null where there is none.
    [[nodiscard]] std::unique_ptr<held_message> take_held(const receiving& r) {
        for (auto each = held_.begin(); each != held_.end(); ++each)
            if (r.takes((*each)->source, (*each)->head.tag)) {
                std::unique_ptr<held_message> found = std::move(*each);
                held_.erase(each);
                return found;
            }
        return nullptr;
    }
    /// Of a probe, whose message was not received after all.
    void put_back(std::unique_ptr<held_message> unread);
    [[nodiscard]] static status status_of(const held_message& m) {
        return {m.source, m.head.tag, m.head.elements(), false};
    }

    /// A message on the lane of envelopes: its head and, of an eager one, its data.
    void take_envelope(int source, const message_head& head, std::span<const std::byte> data);
    /// Where the next data that comes from there belongs, and how long it is.
    [[nodiscard]] receiving* next_expected(int source) noexcept {
        const auto& expected = with(source).expected;
        return expected.empty() ? nullptr : expected.front();
    }
    /// It has come; `from_place`: where it is not in its place already.
    void take_data(int source, const std::byte* from_place);

    /// A rank that has returned sends nothing any more.
    void note_gone(int peer) noexcept { with(peer).is_gone = true; }
    /// The first other rank that may send something still; -1 where all have returned.
    [[nodiscard]] int first_present() const noexcept {
        for (int r = 0; r < size(); ++r)
            if (r != rank_ && !peers_[static_cast<std::size_t>(r)].is_gone) return r;
        return -1;
    }
    /// Visits what is held, in the order in which it came.
    template <class Visit>
    void for_each_held(Visit visit) const {
        for (const auto& each : held_) visit(*each);
    }

    /// Whether answers wait for room to be sent, for which no operation of this rank waits.
    [[nodiscard]] bool owes_answers() const noexcept { return owed_ != 0; }

    /// What `mode::buffered` has copied.
    class kept_send {
      public:
        kept_send() = default;
        kept_send(const kept_send&) = delete;
        kept_send& operator=(const kept_send&) = delete;
        virtual ~kept_send() = default;
        [[nodiscard]] virtual pending& work() noexcept = 0;
    };
    void keep(std::unique_ptr<kept_send> sent) { kept_sends_.push_back(std::move(sent)); }
    void forget_kept() {
        std::erase_if(kept_sends_, [](const auto& each) { return each->work().done(); });
    }
    /// The first one; null where all have been sent.
    [[nodiscard]] pending* first_kept() noexcept {
        return kept_sends_.empty() ? nullptr : &kept_sends_.front()->work();
    }
    std::size_t buffer_bytes = 0, buffered_bytes = 0;

  private:
    using kind = message_head::kind;

    /// A message on its way.
    struct record {
        message_head head;
        std::array<part, 2> parts{};
        int receiver = 0;
        lane on = envelopes_lane;
        bool copyable = true;
        std::atomic<int> lent{0};
        sending* sent = nullptr;       // done when this has been read
        receiving* refused = nullptr;  // the same
    };
    struct counterpart {
        std::deque<std::unique_ptr<record>> queue;
        std::deque<receiving*> expected;  // in the order in which their data comes
        std::uint32_t sent_units = 0, heard_freed = 0, freed = 0, told_freed = 0;
        bool is_gone = false;
    };

    [[nodiscard]] counterpart& with(int peer) noexcept { return peers_[static_cast<std::size_t>(peer)]; }
    [[nodiscard]] static std::uint32_t units_of(std::size_t bytes) noexcept {
        return 1 + static_cast<std::uint32_t>((bytes + unit - 1) / unit);
    }
    [[nodiscard]] static bool has_room(const counterpart& there, std::size_t bytes) noexcept {
        return there.sent_units - there.heard_freed + units_of(bytes) <= most_held;
    }
    [[nodiscard]] record& queue_for(int receiver, kind what) {
        std::unique_ptr<record> made;
        if (spare_.empty()) {
            made = std::make_unique<record>();
        } else {
            made = std::move(spare_.back());
            spare_.pop_back();
        }
        made->head = {};
        made->head.what = what;
        made->parts[1] = {nullptr, 0};
        made->receiver = receiver;
        made->on = envelopes_lane;
        made->copyable = true;
        made->sent = nullptr;
        made->refused = nullptr;
        record& queued = *made;
        with(receiver).queue.push_back(std::move(made));
        ++queued_;
        return queued;
    }
    void flush(post_port& port);
    [[nodiscard]] bool post(record& r, post_port& port);
    void take_own(const record& r);
    void retire(std::unique_ptr<record> over) {
        if (over->head.what == kind::refused && over->refused == nullptr) --owed_;
        if (over->sent != nullptr) over->sent->is_done = true;
        if (over->refused != nullptr) over->refused->is_done = true;
        if (spare_.size() < most_spare) spare_.push_back(std::move(over));
    }
    void collect() {
        for (std::size_t i = 0; i < posted_.size();) {
            if (posted_[i]->lent.load(std::memory_order_acquire) != 0) {
                ++i;
                continue;
            }
            std::unique_ptr<record> over = std::move(posted_[i]);
            posted_[i] = std::move(posted_.back());
            posted_.pop_back();
            retire(std::move(over));
        }
    }

    void match(receiving& r, std::unique_ptr<held_message> with_this);
    void match(receiving& r, int source, const message_head& head, std::span<const std::byte> data);
    [[nodiscard]] std::exception_ptr objection(const receiving& r, int source, const message_head& head) const;
    void free(int source, const message_head& head) {
        counterpart& there = with(source);
        there.freed += units_of(static_cast<std::size_t>(head.bytes));
        if (there.freed - there.told_freed >= most_held / 4) {
            there.told_freed = there.freed;
            static_cast<void>(queue_for(source, kind::news));
        }
    }
    void refuse(int source, const message_head& head, bool was_unexpected, receiving* r) {
        record& answer = queue_for(source, kind::refused);
        answer.head.number = head.number;
        answer.head.tag = head.tag;
        answer.head.was_unexpected = was_unexpected;
        answer.refused = r;
        if (r == nullptr) ++owed_;
    }
    void hear_answer(int source, const message_head& head);

    static constexpr std::size_t most_spare = 64;

    int rank_;
    std::vector<counterpart> peers_;
    std::list<std::unique_ptr<held_message>> held_;
    std::list<receiving*> waiting_;  // in the order in which they were posted
    std::unordered_map<std::uint32_t, sending*> asked_;
    std::vector<std::unique_ptr<record>> posted_, spare_;
    std::size_t queued_ = 0;
    std::uint32_t sends_ = 0;
    std::uint64_t came_ = 0;
    std::uint64_t latest_pass_ = 0;
    std::size_t owed_ = 0;
    std::vector<std::unique_ptr<kept_send>> kept_sends_;
};

inline void post_office::start(sending& s, post_port& port) {
    s.failure = nullptr;
    s.is_done = s.receiver == null_rank;
    if (s.is_done) return;
    counterpart& there = with(s.receiver);
    const std::size_t bytes = s.data.bytes();
    bool is_eager = (s.how == mode::standard || s.how == mode::buffered) && s.data.assign == nullptr &&
                    bytes <= longest_eager && !port.lends(sizeof(message_head) + bytes);
    if (is_eager && !has_room(there, bytes)) {
        turn(port);  // it may have been freed
        is_eager = has_room(there, bytes);
    }
    record& asking = queue_for(s.receiver, is_eager ? kind::eager : kind::request);
    message_head& head = asking.head;
    head.how = s.how;
    head.is_object = s.data.assign != nullptr;
    head.tag = s.label;
    head.bytes = bytes;
    head.type = s.data.type;
    head.number = s.number = ++sends_;
    head.element_bytes = static_cast<std::uint32_t>(s.data.element_bytes);
    std::strncpy(head.type_name.data(), s.data.type_name, head.type_name.size() - 1);
    if (is_eager) {
        there.sent_units += units_of(bytes);
        asking.parts[1] = {s.data.data, bytes};
        head.is_awaited = !s.is_held;
    }
    if (is_eager && s.is_held)
        asking.sent = &s;
    else
        asked_.emplace(s.number, &s);
}

inline void post_office::start(receiving& r) {
    r.failure = nullptr;
    r.found = {};
    r.is_done = r.source == null_rank;
    if (r.is_done) return;
    if (std::unique_ptr<held_message> found = take_held(r)) return match(r, std::move(found));
    waiting_.push_back(&r);
    r.is_posted = true;
}

inline void post_office::forget(sending& s) noexcept {
    std::erase_if(asked_, [&](const auto& each) { return each.second == &s; });
    const auto let_go = [&](std::unique_ptr<record>& each) {
        if (each->sent == &s) each->sent = nullptr;
    };
    for (counterpart& there : peers_) std::ranges::for_each(there.queue, let_go);
    std::ranges::for_each(posted_, let_go);
    s.is_done = true;
}

inline void post_office::forget(receiving& r) noexcept {
    if (r.is_posted) std::erase(waiting_, &r);
    r.is_posted = false;
    const auto let_go = [&](std::unique_ptr<record>& each) {
        if (each->refused != &r) return;
        each->refused = nullptr;
        ++owed_;
    };
    for (counterpart& there : peers_) {
        std::ranges::for_each(there.queue, let_go);
        std::erase(there.expected, &r);
    }
    std::ranges::for_each(posted_, let_go);
    r.is_done = true;
}

/// To each rank in order, as far as there is room.
inline void post_office::flush(post_port& port) {
    for (counterpart& there : peers_) {
        if (queued_ == 0) return;
        while (!there.queue.empty() && post(*there.queue.front(), port)) {
            std::unique_ptr<record> sent = std::move(there.queue.front());
            there.queue.pop_front();
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
    const bool has_head = r.on == envelopes_lane;
    r.head.freed = there.freed;
    r.parts[0] = {reinterpret_cast<std::byte*>(&r.head), sizeof r.head};
    const std::size_t count = has_head && r.parts[1].bytes != 0 ? 2 : 1;
    outgoing message{.parts = {has_head ? r.parts.data() : &r.parts[1], count}};
    message.bytes = (has_head ? sizeof r.head : 0) + r.parts[1].bytes;
    message.copyable = r.copyable;
    message.signature = signature_of_messages;
    message.lent = &r.lent;
    message.unordered = true;
    message.copied = has_head;
    if (!port.try_post(r.receiver, r.on, message)) return false;
    if (has_head) there.told_freed = there.freed;
    return true;
}

/// A message to this rank itself.
inline void post_office::take_own(const record& r) {
    if (r.on == data_lane) return take_data(rank_, r.parts[1].data);
    message_head head = r.head;
    head.freed = with(rank_).freed;
    take_envelope(rank_, head, {r.parts[1].data, r.parts[1].bytes});
}

inline void post_office::take_envelope(int source, const message_head& head, std::span<const std::byte> data) {
    with(source).heard_freed = head.freed;
    if (head.what == kind::news) return;
    if (head.what == kind::clear || head.what == kind::refused) return hear_answer(source, head);
    const auto found = std::ranges::find_if(waiting_, [&](const receiving* r) { return r->takes(source, head.tag); });
    if (found != waiting_.end()) {
        receiving& r = **found;
        waiting_.erase(found);
        r.is_posted = false;
        return match(r, source, head, data);
    }
    if (head.how == mode::ready) return refuse(source, head, true, nullptr);
    auto kept = std::make_unique<held_message>();
    kept->source = source;
    kept->head = head;
    kept->number = ++came_;
    kept->data.assign(data.begin(), data.end());
    held_.push_back(std::move(kept));
}

inline void post_office::match(receiving& r, std::unique_ptr<held_message> with_this) {
    if (!r.is_probe) return match(r, with_this->source, with_this->head, with_this->data);
    r.found = status_of(*with_this);
    r.held = std::move(with_this);
    r.is_done = true;
}

inline void post_office::match(receiving& r, int source, const message_head& head, std::span<const std::byte> data) {
    if (r.is_probe) {
        auto kept = std::make_unique<held_message>();
        kept->source = source;
        kept->head = head;
        kept->number = ++came_;
        kept->data.assign(data.begin(), data.end());
        return match(r, std::move(kept));
    }
    r.found = {source, head.tag, head.elements(), false};
    r.failure = objection(r, source, head);
    if (head.what == kind::eager) {
        free(source, head);
        if (head.is_awaited) refuse(source, head, false, nullptr);  // it asks for no more than an answer
        if (!r.failure && !data.empty()) std::memcpy(r.place.data, data.data(), data.size());
        r.is_done = true;
    } else if (r.failure) {
        refuse(source, head, false, &r);
    } else {
        queue_for(source, kind::clear).head.number = head.number;
        with(source).expected.push_back(&r);
    }
}

/// What is wrong with a message that a receive has matched.
inline std::exception_ptr post_office::objection(const receiving& r, int source, const message_head& head) const {
    if (head.type != r.place.type)
        return std::make_exception_ptr(
            error(errc::mismatch,
                  text({"receive: rank ", rank_, " receives elements of type ", r.place.type_name, ", and rank ",
                        source, " has sent elements of type ", head.type_name.data(), ", under tag ", head.tag})));
    if (head.elements() > r.place.elements)
        return std::make_exception_ptr(error(
            errc::truncated, text({"receive: rank ", rank_, " has room for ", r.place.elements, " elements, and rank ",
                                   source, " has sent ", head.elements(), ", under tag ", head.tag})));
    return nullptr;
}

inline void post_office::take_data(int source, const std::byte* from_place) {
    counterpart& there = with(source);
    receiving& r = *there.expected.front();
    there.expected.pop_front();
    const std::size_t elements = r.found.elements;
    if (elements != 0 && from_place != nullptr) {
        if (r.place.assign != nullptr)
            r.place.assign(r.place.data, from_place, elements);
        else
            std::memmove(r.place.data, from_place, elements * r.place.element_bytes);
    }
    r.is_done = true;
}

/// A receive has been matched with a send of this rank, or refused it.
inline void post_office::hear_answer(int source, const message_head& head) {
    const auto asked = asked_.find(head.number);
    if (asked == asked_.end()) return;
    sending& s = *asked->second;
    asked_.erase(asked);
    if (head.what == kind::clear) {
        record& data = queue_for(source, kind::news);
        data.on = data_lane;
        data.parts[1] = {s.data.data, s.data.bytes()};
        data.copyable = s.data.assign == nullptr;
        data.sent = &s;
        return;
    }
    if (head.was_unexpected)
        s.failure = std::make_exception_ptr(error(
            errc::bad_argument, text({"send: rank ", rank_, " sends to rank ", source, " under tag ", s.label,
                                      " in mode::ready, and rank ", source, " had not posted a receive for it"})));
    s.is_done = true;
}

inline void post_office::put_back(std::unique_ptr<held_message> unread) {
    const auto found =
        std::ranges::find_if(waiting_, [&](const receiving* r) { return r->takes(unread->source, unread->head.tag); });
    if (found != waiting_.end()) {
        receiving& r = **found;
        waiting_.erase(found);
        r.is_posted = false;
        return match(r, std::move(unread));
    }
    const auto later = std::ranges::find_if(held_, [&](const auto& each) { return each->number > unread->number; });
    held_.insert(later, std::move(unread));
}

}  // namespace allfold::detail
