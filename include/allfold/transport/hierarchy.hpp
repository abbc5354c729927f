// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "allfold/error.hpp"
#include "allfold/transport/background.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/lane_offset.hpp"
#include "allfold/transport/detail/rank_names.hpp"
#include "allfold/transport/detail/relay.hpp"
#include "allfold/transport/detail/run_threads.hpp"
#include "allfold/transport/detail/stall_timer.hpp"
#include "allfold/transport/rank_list.hpp"
#include "allfold/transport/relayed_communicator.hpp"
#include "allfold/transport/team.hpp"
#include "allfold/transport/thread_communicator.hpp"
#include "allfold/transport/thread_world.hpp"

/// @file
/// Two transports combined into one: ranks are threads within processes.
///
/// Rank r is thread r % T of process r / T. Threads of one process communicate through shared memory. Between processes
/// only the leaders communicate, the first thread of each, which is the thread that called `run`: so MPI needs only
/// MPI_THREAD_FUNNELED. The schedules for this are those of `two_level`, and `choose` selects them.
/// `relayed_communicator.hpp` has teams of arbitrary ranks.

namespace allfold {

/// One thread's end of processes × threads, made by `run(processes, threads, fn)`. Models `communicator`.
template <communicator Across>
class hierarchical_communicator : public transport_defaults {
    static_assert(outer_communicator<Across>,
                  "allfold: the outer transport of a hierarchy needs look_around, as in mpi::communicator");

  public:
    static constexpr bool shares_memory = false;  // not between all ranks
    static constexpr bool has_groups = true;
    class arrival_type;

    /// The end of the thread that owns `inside`. Threads other than the first only query `across`, for its figures.
    /// `relay`: what the threads of the process share.
    hierarchical_communicator(thread_communicator& inside, Across& across, std::shared_ptr<detail::relay> relay)
        : relay_(std::move(relay)),
          inside_(inside),
          outer_(across),
          across_(inside.rank() == 0 ? &across : nullptr),
          first_(across.rank() * inside.size()),
          size_(across.size() * inside.size()) {}
    hierarchical_communicator(const hierarchical_communicator&) = delete;
    hierarchical_communicator& operator=(const hierarchical_communicator&) = delete;
    ~hierarchical_communicator() {
        background_.end();
        end_teams();
    }

    [[nodiscard]] int rank() const noexcept { return first_ + inside_.rank(); }
    [[nodiscard]] int size() const noexcept { return size_; }
    /// How many consecutive ranks share memory: the threads of a process.
    [[nodiscard]] int group() const noexcept { return inside_.size(); }
    [[nodiscard]] allfold::background& background() noexcept {
        if (across_) relay_->follow();
        return background_;
    }

    /// Opens lanes of both transports; they advance together.
    lane open(const signature& what, unsigned lanes) {
        const lane first = inside_.open(what, lanes);
        if (across_) lane_across_.note(first, across_->open(what, lanes));
        return first;
    }
    [[nodiscard]] static constexpr lane restart_lane(lane first, unsigned lanes) noexcept {
        return thread_communicator::restart_lane(first, lanes);
    }
    void announce(lane first, unsigned lanes, const signature& what) {
        inside_.announce(first, lanes, what);
        if constexpr (requires { across_->announce(first, lanes, what); })
            if (across_) across_->announce(lane_across_(first), lanes, what);
    }
    [[nodiscard]] std::optional<signature> announced(int peer, lane on) const {
        if (is_inside(peer)) return inside_.announced(peer - first_, on);
        return across_ ? across_->announced(process_of(peer), lane_across_(on)) : std::nullopt;
    }
    [[nodiscard]] std::uint32_t announced_hash(int peer, lane on) const {
        if (is_inside(peer)) return inside_.announced_hash(peer - first_, on);
        return across_ ? across_->announced_hash(process_of(peer), lane_across_(on)) : 0;
    }
    [[nodiscard]] bool lends(std::size_t bytes, bool copyable) const {
        return inside_.lends(bytes, copyable) || outer_.lends(bytes, copyable);
    }
    bool try_post(int to, lane on, const outgoing& message) {
        if (is_inside(to)) return inside_.try_post(to - first_, on, message);
        return leader(to).try_post(process_of(to), lane_across_(on), message);
    }
    template <class Sink>
    bool try_receive(int from, lane on, Sink&& sink) {
        if (is_inside(from))
            return inside_.try_receive(from - first_, on, [&](thread_communicator::arrival_type&& message) {
                sink(arrival_type(from_inside{std::move(message)}));
            });
        return leader(from).try_receive(process_of(from), lane_across_(on),
                                        forwarding_sink(sink, [&](typename Across::arrival_type&& message) {
                                            sink(arrival_type(from_across{std::move(message)}));
                                        }));
    }
    void progress() {
        inside_.progress();
        if (across_) progress_across();
    }
    template <pending_work Work>
    void wait(Work& work, std::optional<std::chrono::steady_clock::time_point> deadline);
    /// What `wait` does now and then: throws if waiting is in vain, and returns true if the work turns out to be done.
    template <pending_work Work>
    bool look_around(Work& work, std::optional<std::chrono::steady_clock::time_point> deadline);
    /// The same for work in flight here while this rank waits for something else.
    template <class Work>
    void look_beside(Work& work);
    void check_borrower(const waiting& where) {
        if (!is_inside(where.peer) && relay_->has_leader_left(process_of(where.peer)))
            require_presence(where, absence_of_borrower_);
    }
    void abandon() noexcept {
        relay_->fail(detail::current_cause(), rank());
        inside_.abandon();
        if (flat_) flat_->abandon();  // their destructors could not see the cause
        if (messages_) messages_->abandon();
        if (across_) across_->abandon();
    }
    [[nodiscard]] bool holds_memory() const noexcept { return across_ && across_->holds_memory(); }
    void require_any_thread_allowed() const {
        if (across_) across_->require_any_thread_allowed();
    }

    [[nodiscard]] static bool waits_to_form() noexcept { return false; }
    [[nodiscard]] team<relayed_communicator> form_team(const rank_list& members) {
        if (across_) {
            relay_->moves->resume();
            signature what;  // forming takes a lane of the threads: what is in flight must still find its lanes
            what.what = "subset";
            across_->open(what, 1);
        }
        return relayed_communicator::form(relay_, {detail::team_within(0, ++formed_), {}}, inside_,
                                          rank_list::strided(first_, group()), rank_list::strided(0, size_), members,
                                          rank());
    }

    /// The same ranks without groups, for what two-level schedules cannot do. All ranks must ask for it alike.
    [[nodiscard]] relayed_communicator& flat() {
        if (!flat_) flat_ = form_team(rank_list::strided(0, size_));
        return *flat_;
    }
    /// The same for messages, which each rank may send and receive whether others do or not.
    [[nodiscard]] relayed_communicator& messages() {
        if (!messages_) {
            if (across_) relay_->moves->resume();
            messages_ = relayed_communicator::of_messages(relay_, inside_.rank());
        }
        return *messages_;
    }
    /// To be called before the process moves its last messages.
    void end_teams() noexcept {
        flat_ = {};
        if (std::exchange(has_ended_, true)) return;
        if (messages_)
            messages_ = {};
        else
            relay_->note_silent(rank());
        relay_->note_left(rank());
    }

  private:
    struct from_inside {
        thread_communicator::arrival_type message;
    };
    struct from_across {
        typename Across::arrival_type message;
    };

    /// The work, with its peers numbered as in one of the two transports; peers of the other one become -1.
    template <class Work>
    struct work_inside {
        const hierarchical_communicator& self;
        Work& work;
        bool poll() { return work.poll(); }
        [[nodiscard]] waiting blocked_on() const {
            waiting where = work.blocked_on();
            where.peer = self.is_inside(where.peer) ? where.peer - self.first_ : -1;
            return where;
        }
        void check() const { work.check(); }
        [[nodiscard]] auto next_look() const
            requires requires(const Work& w) { w.next_look(); }
        {
            return work.next_look();
        }
    };
    template <class Work>
    struct work_across {
        const hierarchical_communicator& self;
        Work& work;
        bool poll() { return work.poll(); }
        [[nodiscard]] waiting blocked_on() const {
            waiting where = work.blocked_on();
            where.peer = where.peer < 0 || self.is_inside(where.peer) ? -1 : self.process_of(where.peer);
            where.on = self.lane_across_(where.on);
            return where;
        }
        void check() const {}
    };

    void progress_across() {
        across_->progress();
        constexpr unsigned check_interval = 64;
        if (relay_->has_outgoing() || ++turns_ % check_interval == 0) relay_->moves->progress_now();
        if (relay_->has_failed()) [[unlikely]]
            throw error(relay_->failure().code, detail::text({"hierarchy: aborted on rank ", rank(), " of ", size(),
                                                              ": ", relay_->failure().why.c_str()}));
    }
    /// A wait for a first thread that has left; it may be split over several calls of `wait`.
    struct absence {
        int peer = -1, round = 0;
        lane on = 0;
        std::chrono::steady_clock::time_point asked{};
        std::chrono::steady_clock::duration time{};
    };
    void require_presence(const waiting& where, absence& its);

    [[nodiscard]] bool is_inside(int rank) const noexcept { return rank >= first_ && rank < first_ + group(); }
    [[nodiscard]] int process_of(int rank) const noexcept { return rank / group(); }
    [[nodiscard]] Across& leader(int peer) const {
        if (!across_ || peer % group() != 0)
            throw error(
                errc::bad_argument,
                "hierarchy: rank " + std::to_string(rank()) + " and rank " + std::to_string(peer) +
                    " cannot communicate: only the first thread of each process communicates with other processes");
        return *across_;
    }

    std::shared_ptr<detail::relay> relay_;
    std::uint32_t formed_ = 0;  // teams
    thread_communicator& inside_;
    const Across& outer_;
    Across* across_;  // null on all threads but the first
    int first_;       // rank of this process's first thread
    int size_;
    detail::lane_offset lane_across_;  // from a lane of the threads to the same lane of the processes
    allfold::background background_;
    team<relayed_communicator> flat_, messages_;
    bool has_ended_ = false;
    unsigned turns_ = 0, polls_ = 0;
    static constexpr std::chrono::milliseconds patience{100};
    absence absence_, absence_beside_, absence_of_borrower_;
    detail::looked_after beside_;
};

/// A message from either transport.
template <communicator Across>
class hierarchical_communicator<Across>::arrival_type {
  public:
    arrival_type() = default;
    explicit arrival_type(from_inside&& message) : message_(std::move(message)) {}
    explicit arrival_type(from_across&& message) : message_(std::move(message)) {}

    [[nodiscard]] std::uint32_t signature() const {
        return ask([](const auto& m) { return m.signature(); });
    }
    [[nodiscard]] std::size_t bytes() const {
        return ask([](const auto& m) { return m.bytes(); });
    }
    [[nodiscard]] std::byte* packed() const {
        return ask([](const auto& m) { return m.packed(); });
    }
    [[nodiscard]] std::span<const part> parts() const {
        return ask([](const auto& m) { return m.parts(); });
    }

  private:
    template <class Question>
    [[nodiscard]] auto ask(Question question) const {
        return std::visit([&](const auto& origin) { return question(origin.message); }, message_);
    }
    std::variant<from_inside, from_across> message_;
};

template <communicator Across>
template <pending_work Work>
void hierarchical_communicator<Across>::wait(Work& work,
                                             std::optional<std::chrono::steady_clock::time_point> deadline) {
    if (!across_) {
        work_inside<Work> inside{*this, work};
        return inside_.wait(inside, deadline);
    }
    constexpr unsigned check_interval = 64, spins = 256;
    for (unsigned turn = 1;; ++turn) {  // never sleeps: no message from another process would wake it
        const bool ends = work.poll();
        if (ends && !detail::goes_on(work)) return;
        if (++polls_ % check_interval == 0 && look_around(work, deadline)) return;
        if (ends) return;
        if (turn > spins) std::this_thread::yield();
    }
}

template <communicator Across>
template <pending_work Work>
bool hierarchical_communicator<Across>::look_around(Work& work,
                                                    std::optional<std::chrono::steady_clock::time_point> deadline) {
    work_inside<Work> inside{*this, work};
    if (inside_.look_around(inside, deadline)) return true;
    if (!across_) return false;
    work_across<Work> outside{*this, work};
    if (across_->look_around(outside, std::nullopt)) return true;
    require_presence(work.blocked_on(), absence_);
    return false;
}

template <communicator Across>
template <class Work>
void hierarchical_communicator<Across>::look_beside(Work& work) {
    const waiting where = work.blocked_on();
    work_inside<Work> inside{*this, work};
    if (!across_ || is_inside(where.peer)) return static_cast<void>(inside_.look_around(inside, std::nullopt));
    if (!beside_.is_this(where, std::chrono::steady_clock::now(), patience)) return;
    work_across<Work> outside{*this, work};
    if constexpr (requires { across_->look_beside(outside); })
        across_->look_beside(outside);
    else
        static_cast<void>(across_->look_around(outside, std::nullopt));
    require_presence(where, absence_beside_);
    work.check();
}

/// Throws if this rank waits for a first thread that has returned: for its message, or for it to read what this rank
/// has lent. What that thread sent before may not have reached the engine yet, so this allows it some time.
template <communicator Across>
void hierarchical_communicator<Across>::require_presence(const waiting& where, absence& its) {
    if (where.peer < 0 || is_inside(where.peer) || !relay_->has_leader_left(process_of(where.peer))) {
        its = {};
        return;
    }
    const auto now = std::chrono::steady_clock::now();
    if (its.peer != where.peer || its.round != where.round || its.on != where.on)
        its = {where.peer, where.round, where.on, now, {}};
    its.time +=
        std::min<std::chrono::steady_clock::duration>(now - its.asked, patience / 4);  // it may have been preempted
    its.asked = now;
    if (its.time > patience)
        throw error(errc::peer_failed, detail::text({where.what, ": rank ", rank(), " waits for rank ", where.peer,
                                                     " of ", size(), ", which has returned without taking part"}));
}

namespace detail {

/// While it lives, errors of the processes call them by the ranks of their first threads.
template <communicator Across>
class named_ranks {
  public:
    named_ranks(Across& processes, rank_names names) : processes_(processes) { rename(std::move(names)); }
    named_ranks(const named_ranks&) = delete;
    named_ranks& operator=(const named_ranks&) = delete;
    ~named_ranks() { rename(rank_names(processes_.size())); }

  private:
    void rename(rank_names names) {
        if constexpr (requires { processes_.name_ranks(std::move(names)); }) processes_.name_ranks(std::move(names));
    }
    Across& processes_;
};

}  // namespace detail

/// Calls `fn(comm)` on `threads` threads of every process of `processes`, the calling thread among them; thread t of
/// process p is rank p · threads + t. Every process must call it with the same number of threads, and leave `processes`
/// alone meanwhile. Returns when the threads of this process have returned; if a rank throws, all others are released
/// with `errc::peer_failed`, in all processes, and the exception that was the cause is rethrown here.
///
///     mpi::communicator processes{MPI_COMM_WORLD};
///     run(processes, 4, [](auto& comm) { all_reduce(comm, x, op); });
template <communicator Across, class Fn>
void run(Across& processes, int threads, Fn&& fn, const thread_tuning& tuning = {}) {
    if (threads > 1) processes.require_threads_allowed();
    thread_world world(threads, tuning);
    const auto relay = std::make_shared<detail::relay>(processes.rank(), processes.size(), threads, tuning);
    const int first = processes.rank() * threads, all = processes.size() * threads;
    const detail::named_ranks naming(processes,
                                     detail::rank_names(rank_list::strided(0, processes.size(), threads), all));
    bool leader_failed = false;
    const auto body = [&](thread_communicator& inside) {
        const detail::relay::runner running(*relay, inside.rank());
        const bool is_leader = inside.rank() == 0;
        inside.name_ranks(detail::rank_names(rank_list::strided(first, threads), all));
        hierarchical_communicator<Across> comm(inside, processes, relay);
        try {
            if (is_leader) relay->moves = std::make_unique<detail::relay_mover<Across>>(*relay, processes, inside);
            if constexpr (detail::require_rank_function<Fn, hierarchical_communicator<Across>>()) fn(comm);
            comm.end_teams();
            if (is_leader) relay->moves->leave_inside();
        } catch (...) {
            if (is_leader) leader_failed = true;
            comm.abandon();
            throw;
        }
    };
    const auto see_messages_off = [&] {
        if (relay->moves && !leader_failed) relay->moves->finish();
    };
    auto cause = detail::run_threads(world, detail::first_rank::here, detail::rank_body(body), see_messages_off);
    if (!cause && relay->has_failed())
        cause = std::make_exception_ptr(error(relay->failure().code, "hierarchy: " + relay->failure().why));
    if (!cause) return relay->moves.reset();
    try {
        std::rethrow_exception(cause);
    } catch (...) {
        if (!leader_failed) processes.abandon();  // its leader had already returned
        if (relay->moves) relay->moves->forget_readers();
        relay->moves.reset();
        throw;
    }
}

}  // namespace allfold
