// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "allfold/data/detail/heap_array.hpp"
#include "allfold/error.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/bounce.hpp"
#include "allfold/transport/detail/envelope.hpp"
#include "allfold/transport/detail/mpi_answers.hpp"
#include "allfold/transport/detail/mpi_calls.hpp"
#include "allfold/transport/detail/mpi_carrier.hpp"
#include "allfold/transport/detail/mpi_control_message.hpp"
#include "allfold/transport/detail/mpi_handle.hpp"
#include "allfold/transport/detail/mpi_outbox.hpp"

/// @file
/// What ranks tell each other outside their collectives: "I have failed", "I am waiting for you", "I have made another
/// call", "I have left".

namespace allfold::mpi::detail {

/// Sends and receives control messages, and keeps what they report: a failure, who waits for this rank, who has left.
class control final : public answerer {
  public:
    using clock = std::chrono::steady_clock;
    /// The first failure that became known.
    struct failure {
        int rank;
        errc code;
        std::string why;
    };
    /// What a rank that waits for this one reports.
    struct blocked_report {
        std::string what;
        int round;
        int rounds;
        lane on;
        std::uint32_t call;
        clock::time_point when;
    };

    /// `opened`: this rank's calls. `carried_by`: the carrier of a team's messages; null otherwise.
    control(const handle& job, outbox& out, allfold::detail::known_signatures& known,
            const allfold::detail::opened_lanes& opened, carrier* carried_by)
        : job_(job), outbox_(out), known_(known), opened_(opened), carrier_(carried_by) {}

    /// Receives all control messages that have arrived.
    void poll() override;

    /// Breaks the communicator: every rank that waits, or will wait, throws. Only the first cause is kept.
    [[gnu::cold]] void fail(errc code, const std::string& why);
    [[nodiscard]] bool has_failed() const noexcept { return failure_.has_value(); }
    void throw_if_failed(const char* during) const {
        if (failure_) [[unlikely]]
            throw_failure(during);
    }

    /// Tells `peer` that this rank is waiting for it in a call; null if the call is no longer known.
    void notify_blocked(int peer, const waiting& where, const signature* call);
    /// The call that `peer`, by its own report, is making or has made on this lane.
    [[nodiscard]] std::optional<std::uint32_t> reported_call(int peer, lane on) const;

    /// Carriers whose messages are received along with our own, for the ranks that wait for this one in a team that it
    /// has left.
    void poll_also(const carriers& of_teams) noexcept { of_teams_ = &of_teams; }
    /// Tells all other ranks of a team that this one is leaving it, once.
    void send_farewells();
    [[nodiscard]] bool all_have_departed() const;

    /// This rank leaves: notifies the ranks that wait for it, and from now on every rank that reports that it does.
    void depart();
    /// No rank waits for this one any more, and it sends nothing more.
    void stop_answering() noexcept {
        departs_ = false;
        is_silent_ = true;
    }
    /// When it became known that `peer` has left; nothing if it is not known.
    [[nodiscard]] std::optional<clock::time_point> departure_of(int peer) const;
    /// Whether `peer` is known to receive nothing more in this team. After a farewell, it still does for a while.
    [[nodiscard]] bool is_gone(int peer) const;

    [[noreturn, gnu::cold]] void throw_departed(const waiting& where) const;
    /// A deadline has passed: reports a failure whose cause says who waits for whom. A rank that waits reports it again
    /// within ten times `notice`.
    [[noreturn, gnu::cold]] void time_out(const waiting& where, std::chrono::milliseconds notice);

    /// How many MPI messages have been received.
    [[nodiscard]] std::uint64_t received() const noexcept { return count_; }

  private:
    void send(int to, control_message head, const signature* call, std::string_view text);
    void read(int from, std::span<const std::byte> raw);
    void answer_blocked(int peer, const control_message& head);
    /// The same for what a message has revealed: this rank's calls throw it as it is.
    void fail_by_message(errc code, const std::string& why) {
        if (!failure_) is_found_here_ = true;
        fail(code, why);
    }
    void note_failure(failure first);
    void refuse_list(int place);
    [[noreturn, gnu::cold]] void throw_failure(const char* during) const;

    const handle& job_;
    outbox& outbox_;
    allfold::detail::known_signatures& known_;
    const allfold::detail::opened_lanes& opened_;
    std::optional<failure> failure_;
    struct call_on_lane {
        lane on;
        std::uint32_t call;
    };
    /// What one other rank has reported.
    struct notes {
        std::optional<blocked_report> blocked;  // it waits for this rank
        std::optional<call_on_lane> other;      // where this rank was blocked
        std::optional<clock::time_point> departed;
        bool is_gone = false;
    };
    [[nodiscard]] notes& notes_of(int peer) {
        if (notes_.size() == 0) notes_ = allfold::detail::heap_array<notes>(static_cast<std::size_t>(job_.size()));
        return notes_[static_cast<std::size_t>(peer)];
    }
    /// Null if the rank has reported nothing; -1 is nobody.
    [[nodiscard]] const notes* find_notes(int peer) const noexcept {
        return peer < 0 || notes_.size() == 0 ? nullptr : &notes_[static_cast<std::size_t>(peer)];
    }
    /// Calls visit(peer, report) for each rank that waits for this one.
    template <class Visit>
    void for_each_blocked(Visit visit) const {
        for (std::size_t peer = 0; peer < notes_.size(); ++peer)
            if (notes_[peer].blocked) visit(static_cast<int>(peer), *notes_[peer].blocked);
    }

    allfold::detail::heap_array<notes> notes_;  // by rank; allocated when first written
    carrier* carrier_;
    const carriers* of_teams_ = nullptr;
    bool is_found_here_ = false;  // the failure, in a message
    bool departs_ = false;
    bool is_silent_ = false;
    bool has_said_farewell_ = false;
    std::uint64_t count_ = 0;
};

inline void control::send(int to, control_message head, const signature* call, std::string_view text) {
    allfold::detail::bounce_buffer buffer(longest_control_message);
    head.team = job_.team();
    head.list = job_.members_hash();
    std::byte* next = buffer.data() + sizeof head;
    if (call != nullptr) {
        head.call = call->hash();
        head.introduced = static_cast<std::uint32_t>(allfold::detail::introduction::write(*call, next));
        next += head.introduced;
    }
    head.chars = static_cast<std::uint32_t>(std::min(text.size(), longest_text));
    std::memcpy(next, text.data(), head.chars);
    next += head.chars;
    std::memcpy(buffer.data(), &head, sizeof head);
    outbox_.send_control(to, std::move(buffer), static_cast<std::size_t>(next - buffer.data()));
}

inline void control::poll() {
    if (of_teams_ != nullptr)
        for (const auto& each : *of_teams_) each->poll();
    if (carrier_ == nullptr) {
        // A message of the program's is no reason to throw here: another communicator may be what this rank waits on.
        const auto refuse = [this](int from) {
            if (!is_silent_) fail_by_message(errc::transport, foreign_text(from, control_tag));
        };
        count_ += for_each_control_message(
            job_.get(), [this](int from, std::span<const std::byte> raw) { read(from, raw); }, refuse);
        return;
    }
    carrier_->poll();
    carrier_->for_each_message(job_.team(), [this](int place, std::span<const std::byte> raw) {
        const int from = job_.rank_at(place);
        if (from < 0 || head_of(raw).list != job_.members_hash()) refuse_list(place);
        if (from >= 0) read(from, raw);
    });
}

/// Handles a message from a rank that takes itself for a member of this team, but has given a different list.
inline void control::refuse_list(int place) {
    const char* const advice =
        " passed different lists of members: all members of a team must pass the same ranks in the same order, other "
        "ranks a list that does not include themselves";
    fail_by_message(errc::mismatch,
                    allfold::detail::text({"subset: rank ", job_.place_of(job_.rank()), " and rank ", place, advice}));
    if (job_.rank_at(place) < 0) carrier_->answer(place, job_.team(), job_.members_hash());
}

inline void control::read(int from, std::span<const std::byte> raw) {
    const control_message head = head_of(raw);
    const std::byte* const introduction = raw.data() + sizeof head;
    const std::string text(reinterpret_cast<const char*>(introduction + head.introduced), head.chars);
    switch (head.what) {
        case control_message::kind::failed:
            if (!failure_) note_failure({from, head.code, text});
            break;
        case control_message::kind::blocked:
            if (head.introduced != 0) known_.learn(head.call, introduction);
            notes_of(from).blocked = blocked_report{text, head.round, head.rounds, head.on, head.call, clock::now()};
            answer_blocked(from, head);
            if (departs_) send(from, {.what = control_message::kind::departed}, nullptr, "");
            break;
        case control_message::kind::other_call:
            known_.learn(head.call, introduction);
            notes_of(from).other = call_on_lane{head.on, head.call};
            break;
        case control_message::kind::departed: notes_of(from).is_gone = true; [[fallthrough]];
        case control_message::kind::farewell:
            if (notes& about = notes_of(from); !about.departed) about.departed = clock::now();
            break;
    }
}

inline void control::fail(errc code, const std::string& why) {
    if (failure_) return;
    note_failure({job_.rank(), code, why});
    for (int r = 0; r < job_.size(); ++r)
        if (r != job_.rank()) send(r, {.what = control_message::kind::failed, .code = code}, nullptr, why);
}

/// This rank forms no more teams: those that wait for it in a team that they have formed already hear of it.
inline void control::note_failure(failure first) {
    failure_.emplace(std::move(first));
    if (of_teams_ != nullptr)
        for (const auto& each : *of_teams_) each->close();
}

inline void control::notify_blocked(int peer, const waiting& where, const signature* call) {
    send(peer, {.what = control_message::kind::blocked, .round = where.round, .rounds = where.rounds, .on = where.on},
         call, where.what);
}

/// Tells a rank that waits in vain, since this rank's call on that lane is or was a different one. Without it, nobody
/// would know if this rank's call needed no message of the other.
inline void control::answer_blocked(int peer, const control_message& head) {
    const auto* const own = head.introduced != 0 ? opened_.find(head.on) : nullptr;
    if (own != nullptr && own->hash != head.call)
        send(peer, {.what = control_message::kind::other_call, .on = head.on}, &own->what, "");
}

inline std::optional<std::uint32_t> control::reported_call(int peer, lane on) const {
    const notes* const about = find_notes(peer);
    if (about == nullptr) return std::nullopt;
    if (about->blocked && about->blocked->on == on) return about->blocked->call;
    return about->other && about->other->on == on ? std::optional(about->other->call) : std::nullopt;
}

inline void control::depart() {
    for_each_blocked([this](int peer, const blocked_report&) {
        send(peer, {.what = control_message::kind::departed}, nullptr, "");
    });
    departs_ = true;
}

inline std::optional<control::clock::time_point> control::departure_of(int peer) const {
    const notes* const about = find_notes(peer);
    if (about != nullptr && about->departed) return about->departed;
    return carrier_ != nullptr && peer >= 0 ? carrier_->departure_of(job_.place_of(peer)) : std::nullopt;
}

inline bool control::is_gone(int peer) const {
    const notes* const about = find_notes(peer);
    return (about != nullptr && about->is_gone) || carrier_->departure_of(job_.place_of(peer)).has_value();
}

inline void control::send_farewells() {
    if (std::exchange(has_said_farewell_, true)) return;
    for (int r = 0; r < job_.size(); ++r)
        if (r != job_.rank()) send(r, {.what = control_message::kind::farewell}, nullptr, "");
}
inline bool control::all_have_departed() const {
    for (int r = 0; r < job_.size(); ++r)
        if (r != job_.rank() && !departure_of(r)) return false;
    return true;
}

inline void control::throw_failure(const char* during) const {
    using allfold::detail::text;
    const allfold::detail::rank_names& name = job_.name();
    const std::string who = text({during, ": aborted on rank ", name(job_.rank()), " of ", name.size(), ": "});
    if (failure_->code == errc::timeout || is_found_here_) throw error(failure_->code, who + failure_->why);
    throw error(errc::peer_failed, text({who, "rank ", name(failure_->rank), " failed: ", failure_->why}));
}

inline void control::throw_departed(const waiting& where) const {
    const allfold::detail::rank_names& name = job_.name();
    throw error(errc::peer_failed,
                allfold::detail::text({where.what, ": rank ", name(job_.rank()), " waits for rank ", name(where.peer),
                                       " of ", name.size(), ", which has returned without taking part"}));
}

inline void control::time_out(const waiting& where, std::chrono::milliseconds notice) {
    using allfold::detail::text;
    const allfold::detail::rank_names& name = job_.name();
    const int self = job_.rank();
    const auto line = [&](int rank, int peer, const auto& w) {
        return text({"\n  rank ", name(rank), " waits for rank ", name(peer), " in ", w.what, ", round ", w.round + 1,
                     " of ", w.rounds});
    };
    std::string why = text({"the deadline of rank ", name(self), " passed; waiting ranks:"});
    why += where.peer >= 0 ? line(self, where.peer, where)
                           : text({"\n  rank ", name(self), " waits for its messages to be received"});
    const auto oldest = clock::now() - 12 * notice;
    for_each_blocked([&](int rank, const blocked_report& report) {
        if (report.when >= oldest) why += line(rank, self, report);
    });
    fail(errc::timeout, why);
    throw error(errc::timeout, text({where.what, ": ", why}));
}

}  // namespace allfold::mpi::detail
