// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "allfold/error.hpp"
#include "allfold/transport/background.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/cause.hpp"
#include "allfold/transport/detail/copy.hpp"
#include "allfold/transport/detail/envelope.hpp"
#include "allfold/transport/detail/flow_control.hpp"
#include "allfold/transport/detail/rank_names.hpp"
#include "allfold/transport/detail/relay.hpp"
#include "allfold/transport/detail/stall_timer.hpp"
#include "allfold/transport/rank_list.hpp"
#include "allfold/transport/team.hpp"
#include "allfold/transport/thread_communicator.hpp"
#include "allfold/transport/thread_world.hpp"

/// @file
/// Teams of any threads of any processes.

namespace allfold {
namespace detail {

/// The number of the n-th team formed from a parent: all its members count alike, and need not communicate for that.
[[nodiscard]] constexpr std::uint64_t team_within(std::uint64_t parent, std::uint32_t n) noexcept {
    std::uint64_t mixed = (parent + n) * 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93u;
    return mixed ^ mixed >> 32;
}
[[nodiscard]] inline std::uint64_t hash_of(const rank_list& ranks) noexcept {
    auto all = static_cast<std::uint64_t>(ranks.size());
    for (int i = 0; i < ranks.size(); ++i) all = team_within(all, static_cast<std::uint32_t>(ranks[i]));
    return all;
}

}  // namespace detail

/// One rank's end of a team of a hierarchy, made by `subset` and `split`. Models `communicator`.
///
/// - Members in one process communicate through shared memory. A message to another process passes through the first
///   threads of both processes, members or not. They forward it whenever they wait for, test or probe for anything in
///   the hierarchy or its teams, and after they have returned; while one of them computes, the message waits. It is
///   copied when it is posted and again when it arrives.
/// - The schedules are those for messages: they do not take into account who shares memory with whom.
/// - It ends, at the latest, with the `run` that made the hierarchy.
/// - What a rank sends to a peer that does not read it yet is kept by the peer's process: at most 256 messages of the
///   sending operation and older ones, plus those of later operations in flight.
/// - Members that give different lists, or make different calls, learn of it with the first message between them, or,
///   if there is none, when one has waited for another for some milliseconds; so do ranks that wait for a rank that is
///   in no team, or that can no longer join, since it has returned, or since a team that it would be formed from has
///   failed or has been left. A process remembers, for each of its threads, 64 teams that the thread is not in, and 64
///   that it has left; members of older teams, and members in the same process, wait until the rank that they wait for
///   has returned.
class relayed_communicator : public transport_defaults {
  public:
    static constexpr bool shares_memory = false;
    static constexpr bool sleeps = false;
    [[nodiscard]] static bool waits_to_form() noexcept { return false; }
    class arrival_type;

    relayed_communicator(const relayed_communicator&) = delete;
    relayed_communicator& operator=(const relayed_communicator&) = delete;
    ~relayed_communicator() {
        background_.end();
        depart();
    }

    [[nodiscard]] int rank() const noexcept { return rank_; }
    [[nodiscard]] int size() const noexcept { return ranks_.size(); }
    [[nodiscard]] allfold::background& background() noexcept {
        if (is_of_first_thread_) relay_->follow();
        return background_;
    }

    lane open(const signature& what, unsigned lanes) {
        latest_call_ = what.what;
        throw_if_failed(latest_call_);
        const lane first = inside_->open(what, lanes);
        opened_.add(first, lanes, what);
        return first;
    }
    [[nodiscard]] static constexpr lane restart_lane(lane first, unsigned lanes) noexcept {
        return thread_communicator::restart_lane(first, lanes);
    }
    void announce(lane first, unsigned lanes, const signature& what) {
        latest_call_ = what.what;
        inside_->announce(first, lanes, what);
        opened_.add(first, lanes, what);
    }
    [[nodiscard]] std::optional<signature> announced(int peer, lane on) const {
        if (const int beside = near_.find(peer); beside >= 0) return inside_->announced(beside, on);
        for (const call_on_lane& each : latest_)
            if (each.from == peer && each.on == on) return known_.find(each.call);
        return std::nullopt;
    }
    [[nodiscard]] std::uint32_t announced_hash(int peer, lane on) const {
        const int beside = near_.find(peer);
        return beside >= 0 ? inside_->announced_hash(beside, on) : 0;
    }
    [[nodiscard]] bool lends(std::size_t bytes, bool copyable) const { return inside_->lends(bytes, copyable); }
    bool try_post(int to, lane on, const outgoing& message);
    template <class Sink>
    bool try_receive(int from, lane on, Sink&& sink);
    void progress() {
        inside_->progress();
        take_in();
        throw_if_failed(latest_call_);
    }
    template <pending_work Work>
    void wait(Work& work, std::optional<std::chrono::steady_clock::time_point> deadline);
    /// What `wait` does now and then: throws if waiting is in vain, and returns true if the work turns out to be done.
    template <pending_work Work>
    bool look_around(Work& work, std::optional<std::chrono::steady_clock::time_point> deadline);
    /// The same for work in flight here while this rank waits for something else.
    template <class Work>
    void look_beside(Work& work);
    void abandon() noexcept {
        const detail::cause cause = detail::current_cause();
        fail(cause);
        inside_->abandon();
        if (team_ == detail::relay::messages) relay_->fail(cause, ranks_[rank_]);
    }
    [[nodiscard]] team<relayed_communicator> form_team(const rank_list& members) {
        throw_if_failed("subset");
        std::vector<std::uint64_t> lineage = lineage_;
        lineage.push_back(team_);
        return form(relay_, {detail::team_within(team_, ++formed_), std::move(lineage)}, *inside_, near_, ranks_,
                    members, rank_);
    }

  private:
    template <communicator>
    friend class hierarchical_communicator;

    struct identity {
        std::uint64_t number = 0;
        std::vector<std::uint64_t> lineage;  // of teams that it was formed from, the outermost first
    };
    struct from_near {
        thread_communicator::arrival_type message;
    };
    struct from_far {
        detail::relayed_message message;
    };
    struct failure {
        int rank;
        errc code;
        std::string why;
    };
    /// Messages to a rank of another process that it may not have read, and messages of that rank that were read
    /// without telling it yet.
    struct unread {
        std::vector<detail::sender> sent;
        std::vector<lane> read;
    };
    struct call_on_lane {
        int from = -1;
        lane on = 0;
        std::uint32_t call = 0;
    };
    template <class Work>
    struct work_near {
        const relayed_communicator& self;
        Work& work;
        bool poll() { return work.poll(); }
        [[nodiscard]] waiting blocked_on() const {
            waiting where = work.blocked_on();
            where.peer = self.near_.find(where.peer);
            return where;
        }
        void check() const { work.check(); }
    };

    relayed_communicator(std::shared_ptr<detail::relay> relay, identity as, team<thread_communicator> inside,
                         rank_list beside, rank_list ranks, int rank)
        : relay_(std::move(relay)),
          team_(as.number),
          lineage_(std::move(as.lineage)),
          inside_(std::move(inside)),
          near_(std::move(beside)),
          ranks_(std::move(ranks)),
          rank_(rank),
          is_of_first_thread_(relay_->is_of_first_thread(ranks_[rank_])),
          list_(detail::hash_of(ranks_)),
          departed_(static_cast<std::size_t>(ranks_.size())),
          unread_(static_cast<std::size_t>(ranks_.size())),
          mailbox_(relay_->mailbox_of(team_, ranks_[rank_], list_, rank_, *inside_)) {
        inside_->name_ranks(detail::rank_names(near_, size()));
    }

    /// `inside` connects the threads of this process that are in the parent, where they are the ranks `beside`; `ranks`
    /// lists the parent's ranks as ranks of the hierarchy.
    [[nodiscard]] static team<relayed_communicator> form(const std::shared_ptr<detail::relay>& relay, identity as,
                                                         thread_communicator& inside, const rank_list& beside,
                                                         const rank_list& ranks, const rank_list& members, int self);

    /// All ranks of the hierarchy, for messages: the end of a thread of this process.
    [[nodiscard]] static team<relayed_communicator> of_messages(const std::shared_ptr<detail::relay>& relay,
                                                                int thread);

    [[nodiscard]] bool is_elsewhere(int peer) const noexcept {
        return peer >= 0 && relay_->process_of(ranks_[peer]) != relay_->process();
    }
    [[nodiscard]] detail::relayed_head head_for(int to, detail::relayed_head::kind what) const noexcept {
        return {.what = what,
                .team = team_,
                .members = list_,
                .from = rank_,
                .origin = ranks_[rank_],
                .to = ranks_[to],
                .threads = relay_->threads()};
    }
    template <class Visit>
    void for_each_far(Visit visit) const {
        for (int r = 0; r < size(); ++r)
            if (is_elsewhere(r)) visit(r);
    }
    void leave_note(int to, const detail::relayed_head& head, std::string_view text = {}) const {
        relay_->leave(relay_->process_of(ranks_[to]), detail::relayed_note(head, text));
    }

    static constexpr std::chrono::milliseconds patience{10};  // then a rank asks the one that it waits for
    static constexpr std::size_t max_unread = 256, lanes_per_acknowledgement = 64;
    /// Limits how far a rank that only sends can run ahead. As in `flow_control.hpp`, messages of later lanes never
    /// keep one waiting.
    [[nodiscard]] bool has_room(int to, detail::sender mine) const {
        const std::vector<detail::sender>& sent = unread_[static_cast<std::size_t>(to)].sent;
        if (sent.size() < max_unread || has_left(to)) return true;
        const auto counts = [&](detail::sender before) { return !detail::may_be_overtaken(before, mine); };
        return static_cast<std::size_t>(std::ranges::count_if(sent, counts)) < max_unread;
    }
    void note_read(int from, lane on) {
        std::vector<lane>& read = unread_[static_cast<std::size_t>(from)].read;
        read.push_back(on);
        if (read.size() < lanes_per_acknowledgement) return;
        leave_note(from, head_for(from, detail::relayed_head::kind::read),
                   {reinterpret_cast<const char*>(read.data()), read.size() * sizeof(lane)});
        read.clear();
    }
    void forget_read(std::vector<detail::sender>& sent, const detail::relayed_message& note) const {
        for (std::size_t at = 0; at < note.head().bytes; at += sizeof(lane)) {
            lane on;
            std::memcpy(&on, note.payload() + at, sizeof on);
            const auto found = std::ranges::find(sent, on, &detail::sender::on);
            if (found != sent.end()) sent.erase(found);
        }
    }
    template <class Work>
    [[nodiscard]] bool require_presence(Work& work, const waiting& where, std::chrono::steady_clock::time_point now,
                                        detail::stall_timer& timer);
    /// Asks the rank that this one waits for whether it is in this team, and makes the same call.
    void ask(const waiting& where) {
        detail::relayed_head head = head_for(where.peer, detail::relayed_head::kind::question);
        const detail::opened_lanes::entry* const call = opened_.find(where.on);
        head.on = where.on;
        head.call = call != nullptr ? call->hash : 0;
        leave_note(where.peer, head,
                   {reinterpret_cast<const char*>(lineage_.data()), lineage_.size() * sizeof(std::uint64_t)});
    }

    void take_in() {
        if (!mailbox_->has_news.load(std::memory_order_acquire)) return;
        for (detail::relayed_message& each : relay_->take_news(*mailbox_)) sort(std::move(each));
    }
    void sort(detail::relayed_message&& message);
    void learn_call(const detail::relayed_head& head, const detail::relayed_message& from);
    [[nodiscard]] static std::uint64_t key_of(int from, lane on) noexcept {
        return static_cast<std::uint64_t>(from) << 32 | on;
    }
    [[nodiscard]] bool has_left(int peer) const noexcept {
        return departed_[static_cast<std::size_t>(peer)] || relay_->is_finished(relay_->process_of(ranks_[peer]));
    }
    /// Only the first one is kept. This rank forms no more teams of this one.
    void note_failure(failure what) {
        if (!failure_) relay_->note_end_of_forming(team_, ranks_[rank_]);
        if (!failure_) failure_ = std::move(what);
    }
    void fail(const detail::cause& why) noexcept;
    void throw_if_failed(const char* during) const {
        if (failure_ || relay_->has_failed()) [[unlikely]]
            throw_failure(during);
    }
    [[noreturn, gnu::cold]] void throw_failure(const char* during) const;
    [[noreturn, gnu::cold]] void time_out(const waiting& where);
    void depart() noexcept;

    std::shared_ptr<detail::relay> relay_;
    std::uint64_t team_;
    std::vector<std::uint64_t> lineage_;
    team<thread_communicator> inside_;  // of the members that are threads of this process
    rank_list near_;                    // the ranks of those members in the team
    rank_list ranks_;                   // the members as ranks of the hierarchy
    int rank_;
    bool is_of_first_thread_;  // of its process
    std::uint64_t list_;
    int exceptions_ = std::uncaught_exceptions();
    std::uint32_t formed_ = 0;
    std::multimap<std::uint64_t, detail::relayed_message> arrived_;  // by sender and lane
    std::vector<bool> departed_;
    std::vector<unread> unread_;
    std::shared_ptr<detail::mailbox> mailbox_;
    detail::stall_timer stall_timer_, beside_timer_;
    detail::looked_after beside_;
    std::optional<failure> failure_;
    bool is_failure_announced_ = false;  // all members know of the failure
    const char* latest_call_ = "collective";
    unsigned polls_ = 0;  // while it waits
    detail::opened_lanes opened_;
    detail::introductions introduced_{ranks_.size()};
    detail::known_signatures known_;
    std::array<call_on_lane, 32> latest_{};
    std::size_t newest_ = 0;
    allfold::background background_;
};

/// A message from a thread of this process or of another one.
class relayed_communicator::arrival_type {
  public:
    arrival_type() = default;
    explicit arrival_type(from_near&& message) : message_(std::move(message)) {}
    explicit arrival_type(from_far&& message) : message_(std::move(message)) {}

    [[nodiscard]] std::uint32_t signature() const {
        if (const auto* const remote = std::get_if<from_far>(&message_)) return remote->message.head().signature;
        return std::get<from_near>(message_).message.signature();
    }
    [[nodiscard]] std::size_t bytes() const {
        if (const auto* const remote = std::get_if<from_far>(&message_)) return remote->message.head().bytes;
        return std::get<from_near>(message_).message.bytes();
    }
    [[nodiscard]] std::byte* packed() const {
        if (const auto* const remote = std::get_if<from_far>(&message_)) return remote->message.payload();
        return std::get<from_near>(message_).message.packed();
    }
    [[nodiscard]] std::span<const part> parts() const {
        const auto* const beside = std::get_if<from_near>(&message_);
        return beside != nullptr ? beside->message.parts() : std::span<const part>();
    }

  private:
    std::variant<from_near, from_far> message_;
};

inline bool relayed_communicator::try_post(int to, lane on, const outgoing& message) {
    using namespace detail;
    if (const int beside = near_.find(to); beside >= 0) return inside_->try_post(beside, on, message);
    if (!has_room(to, {on, message.unordered})) return false;
    const opened_lanes::entry* const call = opened_.find(on);
    relayed_head head = head_for(to, relayed_head::kind::message);
    head.signature = message.signature;
    head.on = on;
    head.bytes = message.bytes;
    head.call = call != nullptr ? call->hash : 0;
    const bool introduces = call != nullptr && introduced_.is_due(to, call->hash, call->call);
    const std::size_t payload = align_up(message.bytes, line_of_message);
    relayed_message whole(head, payload + (introduces ? longest_introduction : 0));
    pack(message.parts, message.alignment, whole.payload());
    if (introduces) {
        head.introduced = static_cast<std::uint32_t>(introduction::write(call->what, whole.payload() + payload));
        std::memcpy(whole.whole().data, &head, sizeof head);
    }
    relay_->leave(relay_->process_of(ranks_[to]), std::move(whole));
    unread_[static_cast<std::size_t>(to)].sent.push_back({on, message.unordered});
    return true;
}

template <class Sink>
bool relayed_communicator::try_receive(int from, lane on, Sink&& sink) {
    if (const int beside = near_.find(from); beside >= 0)
        return inside_->try_receive(beside, on, [&](thread_communicator::arrival_type&& message) {
            sink(arrival_type(from_near{std::move(message)}));
        });
    take_in();
    const auto found = arrived_.lower_bound(key_of(from, on));
    if (found == arrived_.end() || found->first != key_of(from, on)) return false;
    detail::relayed_message message = std::move(found->second);
    arrived_.erase(found);
    note_read(from, on);
    sink(arrival_type(from_far{std::move(message)}));
    return true;
}

inline void relayed_communicator::sort(detail::relayed_message&& message) {
    using kind = detail::relayed_head::kind;
    const detail::relayed_head head = message.head();
    if (head.members != list_ && head.what != kind::refused) {  // its sender has been told
        const detail::relayed_message note = detail::refusal(head);
        return note_failure({rank_, errc::mismatch, std::string(detail::text_of(note))});
    }
    switch (head.what) {
        case kind::failed:
            is_failure_announced_ = true;
            note_failure({head.from, head.code, std::string(detail::text_of(message))});
            break;
        case kind::refused:  // of this rank's list, or of an earlier one with the same number
            if (head.members == list_) note_failure({rank_, errc::mismatch, std::string(detail::text_of(message))});
            break;
        case kind::read: forget_read(unread_[static_cast<std::size_t>(head.from)].sent, message); break;
        case kind::question: break;  // came before this rank had joined, and will come again
        case kind::other_call: learn_call(head, message); break;
        case kind::departed: departed_[static_cast<std::size_t>(ranks_.find(head.origin))] = true; break;
        default: learn_call(head, message); arrived_.emplace(key_of(head.from, head.on), std::move(message));
    }
}

inline void relayed_communicator::learn_call(const detail::relayed_head& head, const detail::relayed_message& from) {
    const std::size_t payload = detail::align_up(static_cast<std::size_t>(head.bytes), detail::line_of_message);
    if (head.introduced != 0) known_.learn(head.call, from.payload() + payload);
    latest_[newest_++ % latest_.size()] = {head.from, head.on, head.call};
}

template <pending_work Work>
void relayed_communicator::wait(Work& work, std::optional<std::chrono::steady_clock::time_point> deadline) {
    constexpr unsigned check_interval = 64, spins = 256;
    for (unsigned turn = 1;; ++turn) {
        const bool ends = work.poll();
        if (ends && !detail::goes_on(work)) return;
        if (++polls_ % check_interval == 0 && look_around(work, deadline)) return;
        if (ends) return;
        if (turn > spins) std::this_thread::yield();  // the first thread of its process may need the core
    }
}

template <pending_work Work>
bool relayed_communicator::look_around(Work& work, std::optional<std::chrono::steady_clock::time_point> deadline) {
    work_near<Work> beside{*this, work};
    if (inside_->look_around(beside, std::nullopt)) return true;
    take_in();
    const waiting where = work.blocked_on();
    throw_if_failed(where.what);
    const auto now = std::chrono::steady_clock::now();
    if (require_presence(work, where, now, stall_timer_)) return true;
    if (deadline && now >= *deadline) time_out(where);
    return false;
}

template <class Work>
void relayed_communicator::look_beside(Work& work) {
    const waiting where = work.blocked_on();
    if (!is_elsewhere(where.peer)) {
        work_near<Work> beside{*this, work};
        static_cast<void>(inside_->look_around(beside, std::nullopt));
        return;
    }
    take_in();
    throw_if_failed(where.what);
    const auto now = std::chrono::steady_clock::now();
    if (beside_.is_this(where, now, patience)) static_cast<void>(require_presence(work, where, now, beside_timer_));
}

/// Throws if the work waits for a rank of another process that has left, and asks that rank now and then whether it
/// takes part. Returns true if the work turns out to be done.
template <class Work>
bool relayed_communicator::require_presence(Work& work, const waiting& where, std::chrono::steady_clock::time_point now,
                                            detail::stall_timer& timer) {
    if (!is_elsewhere(where.peer)) return false;
    if (timer.is_notice_due(where, now, patience)) ask(where);
    if (!has_left(where.peer)) return false;
    take_in();  // what it sent before it left
    if (work.poll()) return true;
    if (work.blocked_on().peer == where.peer)
        throw error(errc::peer_failed, detail::text({where.what, ": rank ", rank_, " waits for rank ", where.peer,
                                                     " of ", size(), ", which has returned without taking part"}));
    return false;
}

/// Breaks the team: members in other processes are told, those in this process learn of it through what they share.
inline void relayed_communicator::fail(const detail::cause& why) noexcept {
    if (std::exchange(is_failure_announced_, true)) return;
    try {
        note_failure({rank_, why.code, why.why});
        for (int i = 0; i < near_.size(); ++i) relay_->note_end_of_forming(team_, ranks_[near_[i]]);
        for_each_far([&](int r) {
            detail::relayed_head head = head_for(r, detail::relayed_head::kind::failed);
            head.code = why.code;
            leave_note(r, head, why.why);
        });
    } catch (const std::exception&) {  // no memory: they learn that this rank has left
    }
}

inline void relayed_communicator::throw_failure(const char* during) const {
    using detail::text;
    const std::string who = text({during, ": aborted on rank ", rank_, " of ", size(), ": "});
    if (!failure_) throw error(relay_->failure().code, who + relay_->failure().why);
    if (failure_->code == errc::timeout || failure_->rank == rank_) throw error(failure_->code, who + failure_->why);
    throw error(errc::peer_failed, text({who, "rank ", failure_->rank, " failed: ", failure_->why}));
}

inline void relayed_communicator::time_out(const waiting& where) {
    std::string why = detail::text({"the deadline of rank ", rank_, " passed; it waits"});
    if (where.peer >= 0)
        why += detail::text(
            {" for rank ", where.peer, " in ", where.what, ", round ", where.round + 1, " of ", where.rounds});
    else
        why += " for its messages to be received";
    throw error(errc::timeout, detail::text({where.what, ": ", why}));
}

inline void relayed_communicator::depart() noexcept {
    if (std::uncaught_exceptions() > exceptions_) fail(detail::unknown_cause());
    int others = 0;
    try {
        for_each_far([&](int r) {
            ++others;
            leave_note(r, head_for(r, detail::relayed_head::kind::departed));
        });
    } catch (const std::exception&) {  // no memory: its process will be through at some point
    }
    relay_->close(team_, ranks_[rank_], others);
}

inline team<relayed_communicator> relayed_communicator::form(const std::shared_ptr<detail::relay>& relay, identity as,
                                                             thread_communicator& inside, const rank_list& beside,
                                                             const rank_list& ranks, const rank_list& members,
                                                             int self) {
    const int own = members.find(self);
    if (own < 0) {
        static_cast<void>(inside.form_part({}));  // its lanes stay in step with those of the others
        relay->note_outsider(as.number, ranks[self]);
        return {};
    }
    std::vector<int> threads, of_team;
    for (int i = 0; i < members.size(); ++i)
        if (const int thread = beside.find(members[i]); thread >= 0) {
            threads.push_back(thread);
            of_team.push_back(i);
        }
    std::unique_ptr<relayed_communicator> made(
        new relayed_communicator(relay, std::move(as), inside.form_part(rank_list(std::move(threads))),
                                 rank_list(std::move(of_team)), members.among(ranks), own));
    return {members, nullptr, std::move(made)};
}

inline team<relayed_communicator> relayed_communicator::of_messages(const std::shared_ptr<detail::relay>& relay,
                                                                    int thread) {
    const int threads = relay->threads(), first = relay->process() * threads;
    std::shared_ptr<thread_world> world = relay->world_of_messages();
    std::unique_ptr<thread_communicator> beside(new thread_communicator(world->communicator(thread)));
    const rank_list ranks = rank_list::strided(0, relay->processes() * threads);
    std::unique_ptr<relayed_communicator> made(new relayed_communicator(
        relay, {detail::relay::messages, {}}, {rank_list::strided(0, threads), std::move(world), std::move(beside)},
        rank_list::strided(first, threads), ranks, first + thread));
    return {ranks, nullptr, std::move(made)};
}

static_assert(team_forming_communicator<relayed_communicator>);

}  // namespace allfold
