// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "allfold/transport/detail/bounce.hpp"
#include "allfold/transport/detail/mpi_answers.hpp"
#include "allfold/transport/detail/mpi_calls.hpp"
#include "allfold/transport/detail/mpi_control_message.hpp"
#include "allfold/transport/detail/mpi_handle.hpp"
#include "allfold/transport/detail/mpi_outbox.hpp"
#include "allfold/transport/detail/mpi_tuning.hpp"

/// @file
/// What the teams of processes share, so that forming one costs no message.
///
/// A team has no MPI communicator of its own. All teams of a parent use one, a duplicate of the parent's, each with its
/// own range of tags. The k-th team that the parent's ranks form gets the k-th range; they all count alike, so no
/// communication is needed. A number is never reused, so nothing that a team leaves behind can reach another one; once
/// all numbers are used up, the ranks make the next carrier, which does cost messages, as does the first one.
///
/// Control messages of all teams share one tag here. A team that looks for its own receives all of them, and keeps
/// those of other teams for them, including teams that this rank has yet to form. A rank that waits for this one in a
/// team that this one has left, or never joins, gets its answer from here.
///
/// Teams may outlive their parent. If the parent is a team itself, which ends without waiting for anyone, its carrier
/// ends by itself: on each rank once that has no teams on it any more, in steps that are taken whenever the carrier is
/// polled. Meanwhile the carrier of the parent keeps it.

namespace allfold::mpi::detail {

/// An MPI communicator that carries the messages of teams. Several threads may use it, one per team.
class carrier : public answerer {
  public:
    using clock = std::chrono::steady_clock;

    /// For the teams of a communicator that has an `MPI_Comm` of its own, or, if `is_team`, of a team that another
    /// carrier carries. Blocks in MPI until all ranks of `parent` have arrived here, and operations in flight make no
    /// progress meanwhile: every rank must be about to arrive, whatever becomes of those.
    carrier(const handle& parent, bool is_team, const tuning& numbers)
        : job_(is_team ? create_group(parent) : duplicate_of(parent), adopt, parent.node(), 0), tuning_(numbers) {
        constexpr int enough = 1 << 20, some_teams = 128;
        const int wanted = numbers.tags > 0 ? std::min(numbers.tags, enough) : enough;
        tags_ = std::min(wanted, std::max(2, job_.tags() / some_teams) - 1);
        most_ = static_cast<std::uint32_t>(job_.tags() / (tags_ + 1));  // each also has the tag for forming teams of it
    }

    [[nodiscard]] const handle& job() const noexcept { return job_; }
    /// How many tags each team has.
    [[nodiscard]] int tags() const noexcept { return tags_; }

    // Called by the parent, on all its ranks alike.
    [[nodiscard]] bool is_full() const noexcept { return formed_ == most_; }
    [[nodiscard]] std::uint32_t form(bool is_member) {
        const std::lock_guard lock(mutex_);
        if (is_member) alive_.push_back(formed_);
        return formed_++;
    }
    /// The parent ends on this rank: it will form no more teams.
    void close() {
        const std::lock_guard lock(mutex_);
        is_closed_ = true;
        sort_again();
    }
    /// Ends the carrier once all ranks have called this. Returns false if some rank still has teams, or as soon as
    /// `go_on()`, which is called while it waits, is false because some rank will not arrive.
    template <class GoOn>
    [[nodiscard]] bool try_end(GoOn go_on);
    /// The parent is gone, but some rank still has teams: this rank says farewell once it has none, since nobody else
    /// will answer for it then.
    void outlive_parent() {
        const std::lock_guard lock(mutex_);
        is_alone_ = true;
        if (alive_.empty()) send_farewells();
    }
    /// The same for a parent that is a team: the carrier then ends by itself.
    void end_by_itself() {
        const std::lock_guard lock(mutex_);
        is_alone_ = ends_by_itself_ = true;
        if (alive_.empty()) send_farewells();
    }
    /// Keeps a carrier that ends by itself until it has done so.
    void keep(std::shared_ptr<carrier> other) {
        const std::lock_guard lock(mutex_);
        kept_.push_back(std::move(other));
    }

    // Called by a team.
    /// Receives the control messages that have arrived, for all teams.
    void poll() override {
        const std::lock_guard lock(mutex_);
        if (job_.get() == MPI_COMM_NULL) return;
        take_in();
        for (const auto& each : kept_) each->poll();
        std::erase_if(kept_, [](const auto& each) { return each->is_at(ending::over); });
        if (ends_by_itself_ && ending_ == ending::no && alive_.empty() && !keeps_any_at(ending::no)) begin_end();
        while (try_next_step()) {
        }
    }
    /// Calls visit(place, raw) once for each control message of a team.
    template <class Visit>
    void for_each_message(std::uint32_t team, Visit visit) {
        for (const team_message& each : take_messages(team)) visit(each.place, std::span(each.raw));
    }
    /// When it became known that a place has no team any more and will form none; nothing if it is not known.
    [[nodiscard]] std::optional<clock::time_point> departure_of(int place) {
        const std::lock_guard lock(mutex_);
        const auto found = std::ranges::find(departed_, place, &departure::place);
        return found == departed_.end() ? std::nullopt : std::optional(found->when);
    }
    /// Tells a place that this rank is not in a team with this list of members.
    void answer(int place, std::uint32_t team, std::uint32_t list) {
        const std::lock_guard lock(mutex_);
        send_departed(place, team, list);
    }
    /// A team ends on this rank. `clean`: none of its messages are in flight. `received`: how many MPI messages it
    /// received.
    void leave(const handle& team, const outbox& out, std::uint64_t received, bool clean);

  private:
    struct team_message {
        std::uint32_t team;
        int place;
        std::vector<std::byte> raw;
    };
    struct departure {
        int place;
        clock::time_point when;
    };
    static constexpr std::uint32_t every_team = ~std::uint32_t{0};
    /// How far a carrier has got that ends by itself. One that is lost is never freed: messages may be in flight.
    enum class ending : std::uint8_t { no, asks, falls_silent, sums, drains, meets, over, lost };

    [[nodiscard]] bool is_at(ending step) {
        const std::lock_guard lock(mutex_);
        return ending_ == step;
    }
    /// Whether a carrier that it keeps has got this far; `no` while this rank still has teams there.
    [[nodiscard]] bool keeps_any_at(ending step) {
        return std::ranges::any_of(kept_, [step](const auto& each) { return each->is_at(step); });
    }
    [[nodiscard]] bool keeps_ending() {
        const std::lock_guard lock(mutex_);
        return !std::ranges::all_of(kept_, [](const auto& each) { return each->is_at(ending::lost); });
    }
    // The collectives of an end.
    void ask(MPI_Request& request) {
        check(ALLFOLD_MPI(Iallreduce)(&is_used_, &some_use_, 1, MPI_INT, MPI_MAX, job_.get(), &request),
              "MPI_Iallreduce");
    }
    void sum(MPI_Request& request) {
        for (std::size_t place = 0; place < sent_.size(); ++place) sent_[place] += outbox_.sent()[place];
        check(ALLFOLD_MPI(Ireduce_scatter_block)(sent_.data(), &expected_, 1, MPI_UINT64_T, MPI_SUM, job_.get(),
                                                 &request),
              "MPI_Ireduce_scatter_block");
    }
    void meet(MPI_Request& request) { check(ALLFOLD_MPI(Ibarrier)(job_.get(), &request), "MPI_Ibarrier"); }

    // A carrier that ends by itself; the mutex is locked.
    void begin_end() {
        is_used_ = is_clean_ ? 0 : 1;
        ask(step_);
        ending_ = ending::asks;
    }
    /// Whether a step has ended, so that the next one can be tried.
    [[nodiscard]] bool try_next_step() {
        int done = 1;
        if (step_ != MPI_REQUEST_NULL) check(ALLFOLD_MPI(Test)(&step_, &done, MPI_STATUS_IGNORE), "MPI_Test");
        if (done == 0) return false;
        switch (ending_) {
            case ending::asks:
                is_silent_ = some_use_ == 0;
                ending_ = is_silent_ ? ending::falls_silent : ending::lost;
                return true;
            case ending::falls_silent:
                outbox_.collect_copies();
                if (!outbox_.empty()) return false;
                sum(step_);
                ending_ = ending::sums;
                return true;
            case ending::sums: ending_ = ending::drains; return true;
            case ending::drains:
                receive_unread();
                if (received_ != expected_) return false;
                meet(step_);
                ending_ = ending::meets;
                return true;
            case ending::meets:
                if (keeps_any_at(ending::lost)) ending_ = ending::lost;  // and keeps them
                if (!kept_.empty()) return false;
                job_.close(true);
                ending_ = ending::over;
                return false;
            case ending::no:
            case ending::over:
            case ending::lost: return false;
        }
        return false;
    }

    /// Whether this rank has left the team, or will never be in it.
    [[nodiscard]] bool has_left(std::uint32_t team) const noexcept {
        return team < formed_ ? std::ranges::find(alive_, team) == alive_.end() : is_closed_;
    }
    void take_in() {
        // A message of the program's is dropped: it belongs to no team.
        received_ += for_each_control_message(
            job_.get(), [this](int place, std::span<const std::byte> raw) { sort(place, raw); }, [](int) {});
        outbox_.collect_copies();
    }
    void sort(int place, std::span<const std::byte> raw) {
        const control_message head = head_of(raw);
        if (is_silent_) return;
        if (head.team == every_team)
            departed_.push_back({place, clock::now()});
        else if (!has_left(head.team))
            team_messages_.push_back({head.team, place, {raw.begin(), raw.end()}});
        else if (head.what != control_message::kind::departed)
            send_departed(place, head.team, head.list);
    }
    void sort_again() {
        for (const team_message& each : std::exchange(team_messages_, {})) sort(each.place, each.raw);
    }
    [[nodiscard]] std::vector<team_message> take_messages(std::uint32_t team) {
        const std::lock_guard lock(mutex_);
        std::vector<team_message> taken, kept;
        if (team_messages_.empty()) return taken;
        for (team_message& each : team_messages_) (each.team == team ? taken : kept).push_back(std::move(each));
        team_messages_.swap(kept);
        return taken;
    }
    void send_departed(int place, std::uint32_t team, std::uint32_t list) {
        const control_message head{.what = control_message::kind::departed, .team = team, .list = list};
        allfold::detail::bounce_buffer buffer(sizeof head);
        std::memcpy(buffer.data(), &head, sizeof head);
        outbox_.send_control(place, std::move(buffer), sizeof head);
    }
    [[nodiscard]] bool must_stay() {
        const std::lock_guard lock(mutex_);  // another thread may be ending a team
        return !is_clean_ || !alive_.empty() || keeps_any_at(ending::no);
    }
    void send_farewells() {
        for (int place = 0; place < job_.size(); ++place)
            if (place != job_.rank() && std::ranges::find(departed_, place, &departure::place) == departed_.end())
                send_departed(place, every_team, 0);
    }
    [[nodiscard]] bool has_received_all() {
        const std::lock_guard lock(mutex_);  // another thread may be taking in what has arrived
        return received_ == expected_;
    }
    void drain() {
        const std::lock_guard lock(mutex_);
        receive_unread();
    }
    void receive_unread();
    void fall_silent();
    template <class Begin, class GoOn>
    [[nodiscard]] bool run_collective(Begin begin, GoOn go_on);

    handle job_;
    const tuning tuning_;
    int tags_ = 1;
    std::uint32_t most_ = 1;  // number of teams

    std::mutex mutex_;  // guards all that follows
    std::uint32_t formed_ = 0;
    std::vector<std::uint32_t> alive_;  // teams of which this rank is a member
    bool is_closed_ = false;
    bool is_alone_ = false;
    bool is_clean_ = true;
    bool is_silent_ = false;
    bool ends_by_itself_ = false;
    ending ending_ = ending::no;
    MPI_Request step_ = MPI_REQUEST_NULL;         // of its end
    std::vector<std::shared_ptr<carrier>> kept_;  // of teams that were teams here, and have ended
    std::vector<team_message> team_messages_;
    std::vector<departure> departed_;
    allfold::detail::bounce_pool pool_{longest_control_message};
    outbox outbox_{job_, pool_, tuning_};
    std::vector<std::uint64_t> sent_ = std::vector<std::uint64_t>(static_cast<std::size_t>(job_.size()));
    std::uint64_t received_ = 0;
    int is_used_ = 1, some_use_ = 1;  // operands of MPI's collectives
    std::uint64_t expected_ = 0;
};

using carriers = std::vector<std::shared_ptr<carrier>>;

inline void carrier::leave(const handle& team, const outbox& out, std::uint64_t received, bool clean) {
    const std::lock_guard lock(mutex_);
    for (int r = 0; r < team.size(); ++r)
        sent_[static_cast<std::size_t>(team.place_of(r))] += out.sent()[static_cast<std::size_t>(r)];
    received_ += received;
    is_clean_ = is_clean_ && clean;
    std::erase(alive_, team.team());
    sort_again();
    if (is_alone_ && alive_.empty()) send_farewells();
}

/// Receives unread messages: those of teams that have failed, and answers that arrived too late.
inline void carrier::receive_unread() {
    for (;;) {
        int there = 0;
        MPI_Status status;
        check(ALLFOLD_MPI(Iprobe)(MPI_ANY_SOURCE, MPI_ANY_TAG, job_.get(), &there, &status), "MPI_Iprobe");
        if (there == 0) return;
        const std::size_t bytes = bytes_of(status);
        const allfold::detail::bounce_buffer buffer(std::max<std::size_t>(1, bytes));
        MPI_Request request;
        check(irecv(buffer.data(), bytes, status.MPI_SOURCE, status.MPI_TAG, job_.get(), &request), "MPI_Irecv");
        check(ALLFOLD_MPI(Wait)(&request, MPI_STATUS_IGNORE), "MPI_Wait");
        ++received_;
    }
}

/// From now on this rank sends nothing more.
inline void carrier::fall_silent() {
    const std::lock_guard lock(mutex_);
    is_silent_ = true;
    while (!outbox_.empty()) outbox_.collect_copies();
}

template <class Begin, class GoOn>
bool carrier::run_collective(Begin begin, GoOn go_on) {
    MPI_Request all = MPI_REQUEST_NULL;
    begin(all);
    for (int done = 0;; std::this_thread::yield()) {
        poll();
        answerers_of_thread::poll();
        check(ALLFOLD_MPI(Test)(&all, &done, MPI_STATUS_IGNORE), "MPI_Test");
        if (done != 0) return true;
        if (!go_on()) return false;
    }
}

/// As in `shutdown`: MPI may reuse the communicator's number for the next one, so no message may be in flight.
template <class GoOn>
bool carrier::try_end(GoOn go_on) {
    poll();  // what it keeps begins to end here at the latest
    is_used_ = must_stay() ? 1 : 0;
    if (!run_collective([this](MPI_Request& request) { ask(request); }, go_on) || some_use_ != 0) return false;
    for (; keeps_ending(); std::this_thread::yield()) {  // on all ranks, which have no teams there any more
        poll();
        answerers_of_thread::poll();
        if (!go_on()) return false;
    }
    fall_silent();
    if (!run_collective([this](MPI_Request& request) { sum(request); }, go_on)) return false;
    while (!has_received_all()) drain();
    if (!run_collective([this](MPI_Request& request) { meet(request); }, go_on)) return false;
    const std::lock_guard lock(mutex_);  // another thread may be polling it
    for (const auto& lost : kept_) new std::shared_ptr<carrier>(lost);
    job_.close(true);
    return true;
}

}  // namespace allfold::mpi::detail
