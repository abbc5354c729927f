// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>

#include "allfold/error.hpp"
#include "allfold/transport/background.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/bounce.hpp"
#include "allfold/transport/detail/cause.hpp"
#include "allfold/transport/detail/copy.hpp"
#include "allfold/transport/detail/envelope.hpp"
#include "allfold/transport/detail/mpi_answers.hpp"
#include "allfold/transport/detail/mpi_calls.hpp"
#include "allfold/transport/detail/mpi_carrier.hpp"
#include "allfold/transport/detail/mpi_control.hpp"
#include "allfold/transport/detail/mpi_handle.hpp"
#include "allfold/transport/detail/mpi_inbox.hpp"
#include "allfold/transport/detail/mpi_machine.hpp"
#include "allfold/transport/detail/mpi_native.hpp"
#include "allfold/transport/detail/mpi_outbox.hpp"
#include "allfold/transport/detail/mpi_shutdown.hpp"
#include "allfold/transport/detail/mpi_tuning.hpp"
#include "allfold/transport/detail/stall_timer.hpp"
#include "allfold/transport/rank_list.hpp"
#include "allfold/transport/team.hpp"

/// @file
/// Transport over MPI 3.1 or later, with any MPI library: ranks are the processes of an MPI job. Nothing else in
/// allfold knows mpi.h.
///
/// A lane maps to a tag. A message begins with an envelope, which carries its lane (tags wrap, lanes do not), the call
/// its sender is making, and its length. A short payload is copied and sent along with the envelope, so that the sender
/// may continue at once; a long one follows in messages of its own, straight from the sender's memory. A receive is
/// posted when the engine first asks for a message. Once the envelope has arrived, a long payload is received where the
/// sink wants it, or into a buffer of ours; the sink reads it in place, so the fold of one window overlaps with the
/// transfer of the next ones.
///
/// One tag is reserved for control messages: "I have failed", "I am waiting for you", "I have made another call", "I
/// have left". While a rank waits it polls for them, on all communicators that its thread uses, so that a failure
/// releases every rank, and a rank that waits for one that makes, or has made, a different call finds out.
///
/// Teams share an MPI communicator (`detail/mpi_carrier.hpp`): a team is a subset of its ranks and a range of its tags.
///
/// Outgoing messages (`detail/mpi_outbox.hpp`), incoming messages (`mpi_inbox.hpp`), control messages
/// (`mpi_control.hpp`) and shutdown (`mpi_shutdown.hpp`) have headers of their own; this one assembles them into a
/// communicator.

namespace allfold::mpi {

/// One process's end of an MPI communicator. Models `allfold::communicator`; used by one thread at a time.
///
///     mpi::communicator comm{MPI_COMM_WORLD};                  // a duplicate, freed in the end
///     mpi::communicator comm{MPI_COMM_WORLD, mpi::borrow};     // the communicator itself
///     all_reduce(comm, x, sum{});
///
/// - Takes an `MPI_Comm` or anything that wraps one: types that convert to it (Boost.MPI), or that have
///   `mpi_communicator()` (KaMPIng) or `native_handle()` (MPL).
/// - Construction and destruction are collective over the ranks of the communicator; destruction must come before
///   MPI_Finalize. Construction costs MPI_Comm_dup and one small collective: an all_gather of 72 bytes per rank the
///   first time a given `MPI_Comm`, or the one it was duplicated from, is used, and a barrier afterwards. A team
///   inherits what its parent knows about the node; it counts all the parent's ranks there, since they share its CPUs.
///   Operations in flight on other communicators make progress meanwhile, so it does not matter which of them other
///   ranks wait for before they arrive.
/// - Threads: MPI may be initialised at any thread level. MPI_THREAD_SINGLE and MPI_THREAD_FUNNELED allow only the main
///   thread, MPI_THREAD_SERIALIZED any one thread at a time. MPI_THREAD_MULTIPLE is needed if several threads of a
///   process use communicators, one each, at the same time.
/// - A rank that waits for this one in vain learns why as soon as the thread that last used the communicator waits for
///   anything in allfold; if that thread has ended, as soon as any other one of the process does.
/// - Errors: `bad_argument` if MPI is not initialised or already finalised, for a null, freed or inter-communicator,
///   and if the thread level does not allow the calling thread; `transport`, with MPI's own text, if an MPI call fails.
///   A failure breaks the communicator for good: every collective on it throws, on every rank.
class communicator : public transport_defaults {
  public:
    static constexpr bool shares_memory = false;
    static constexpr bool sleeps = false;
    static constexpr bool has_native = true;
    using arrival_type = detail::arrival;
    using native_function = void (*)(communicator&, const native_operands&);

    template <detail::wraps_handle C>
    explicit communicator(const C& base, ownership how = duplicate, const mpi::tuning& numbers = {},
                          const machine& node = {})
        : communicator(checked{}, detail::handle_of(base), how, numbers, node) {}
    communicator(const communicator&) = delete;
    communicator& operator=(const communicator&) = delete;
    ~communicator() {
        background_.end();
        depart();
    }

    [[nodiscard]] int rank() const noexcept { return job_.rank(); }
    [[nodiscard]] int size() const noexcept { return job_.size(); }
    [[nodiscard]] allfold::background& background() noexcept { return background_; }
    [[nodiscard]] const mpi::tuning& tuning() const noexcept { return tuning_; }
    /// What is known about the node that this process runs on.
    [[nodiscard]] const machine& node() const noexcept { return job_.node(); }
    /// The communicator that carries the messages: the duplicate or the borrowed one. A team's also has ranks that are
    /// not in the team.
    [[nodiscard]] MPI_Comm native_handle() const noexcept { return job_.get(); }
    /// What errors are to call its ranks, which are part of a larger communicator.
    void name_ranks(allfold::detail::rank_names names) { job_.name_ranks(std::move(names)); }
    /// Throws unless MPI was initialised for a process with other threads, which do not call MPI.
    void require_threads_allowed() const { detail::require_funneled(); }
    void require_any_thread_allowed() const { detail::require_serialized(); }

    lane open(const signature& what, unsigned lanes) {
        attendance_.take_over();
        latest_call_ = what.what;
        control_.throw_if_failed(latest_call_);
        const lane first = allfold::detail::first_of_lanes(next_lane_, lanes);
        next_lane_ = first + lanes;
        opened_.add(first, lanes, what);
        return first;
    }
    // Short calls. Messages carry the call they belong to, so `open_again` records it before the first one is sent.
    // Nothing else is done between a call's message and its answer. Two processes, all_reduce of 8 B to 1 KiB: .80x to
    // .88x the time of the engine's general path over Open MPI 4.1, .87x to .92x over MPICH 4.0. Posting the receive
    // before the send is slower over Open MPI (by 15 to 20 ns of 140); MPI_Send and persistent receives are no faster.

    static constexpr bool has_short_path = true;
    lane open_again(const signature& what, std::uint32_t hash) {
        attendance_.take_over();
        latest_call_ = what.what;
        poll_occasionally();  // a rank that only sends never waits
        next_lane_ = allfold::detail::first_of_lanes(next_lane_, 1);
        opened_.add_again(next_lane_, hash, what);
        return next_lane_++;
    }
    void reopen(lane on, const signature& what) {
        announce(on, 1, what);
        control_.throw_if_failed(latest_call_);
    }
    void announce_again(lane, const signature&, std::uint32_t) noexcept {}
    template <class Write>
    [[nodiscard]] bool post_copy(int to, lane on, bool unordered, std::uint32_t signature, std::size_t bytes, bool,
                                 Write write) {
        const auto* const call = opened_.find(on);
        return call != nullptr && outbox_.send_plain(to, {on, unordered}, signature, bytes, write, call);
    }
    /// Sends a short message between two ranks, which `write(memory)` writes into the buffer that MPI reads; returns
    /// false if the message has to be posted the general way. Two processes, Open MPI 4.1, round trip: 8 bytes take
    /// 0.65x the time of the general way, 1 KiB takes 0.78x. (A rendezvous for 4 KiB and more, so that MPI copies the
    /// data only once, takes 1.1x to 1.2x as long as chunks, with one message in flight or 64.)
    template <class Write>
    [[nodiscard]] bool write_copied(int to, lane on, std::uint32_t signature, std::size_t bytes, Write write) {
        attendance_.take_over();
        return outbox_.send_plain(to, {on, true}, signature, bytes, write, nullptr);
    }
    [[nodiscard]] bool find_in_place(int from, lane on, std::size_t bytes, message_in_place& here, bool waits) {
        constexpr int brief_spins = 1000;  // about 50 us
        const int turns = waits && !oversubscribed_ ? brief_spins : 1;
        return inbox_.await_plain(from, on, bytes, here, turns) &&
               (allfold::detail::is_of_messages(on) || outbox_.has_released());
    }
    void take_in_place(int from) { inbox_.take_plain(from); }
    template <class Use>
    void use_arrived(int from, lane on, std::size_t min_bytes, Use use) {
        for (message_in_place here{}; find_in_place(from, on, min_bytes, here, false); take_in_place(from)) use(here);
    }
    template <class Use>
    [[nodiscard]] bool use_in_place(int from, lane on, std::uint32_t signature, std::size_t bytes, Use use) {
        message_in_place here;
        if (!find_in_place(from, on, bytes, here, true) || here.signature != signature || here.bytes != bytes)
            return false;
        use(static_cast<const std::byte*>(here.data));
        take_in_place(from);
        return true;
    }

    [[nodiscard]] static constexpr lane restart_lane(lane first, unsigned lanes) noexcept {
        return allfold::detail::restart_lane_of(first, lanes);
    }
    void announce(lane first, unsigned lanes, const signature& what) {
        attendance_.take_over();
        latest_call_ = what.what;
        opened_.add(first, lanes, what);
    }
    /// The call that `peer` is making, or has made, on this lane, as far as messages that have arrived, or a control
    /// message, have revealed it.
    [[nodiscard, gnu::cold]] std::optional<signature> announced(int peer, lane on) const {
        if (peer == rank()) {
            const auto* const opened = opened_.find(on);
            return opened != nullptr ? std::optional(opened->what) : std::nullopt;
        }
        auto call = inbox_.call_of(peer, on);
        if (!call) call = control_.reported_call(peer, on);
        return call ? known_.find(*call) : std::nullopt;
    }
    [[nodiscard]] bool lends(std::size_t bytes, bool) const noexcept { return bytes > tuning_.eager_bytes; }

    bool try_post(int to, lane on, const outgoing& message) {
        attendance_.take_over();
        const bool is_message = allfold::detail::is_of_messages(on);  // and belongs to no call
        const auto* const call = is_message ? nullptr : opened_.find(on);
        const allfold::detail::sender of{on, message.unordered};
        if (message.copied && (call != nullptr || is_message)) {  // a short call in several parts, or an envelope
            const auto pack = [&](std::byte* into) { allfold::detail::pack(message.parts, message.alignment, into); };
            if (outbox_.send_plain(to, of, message.signature, message.bytes, pack, call)) return true;
        }
        if (!outbox_.has_room(of)) return false;
        outbox_.send_message(to, on, message, call);
        return true;
    }
    template <class Sink>
    bool try_receive(int from, lane on, Sink&& sink) {
        return inbox_.try_receive(from, on, sink);
    }
    void progress();
    template <pending_work Work>
    void wait(Work& work, std::optional<std::chrono::steady_clock::time_point> deadline);
    /// What `wait` does now and then, for callers that wait on several transports at once: throws if waiting is in
    /// vain, and returns true if the work turns out to be done.
    template <pending_work Work>
    bool look_around(Work& work, std::optional<std::chrono::steady_clock::time_point> deadline);
    /// The same for work in flight here while this rank waits for something else. It takes a while to find out that
    /// waiting is in vain, so this is about one piece of work at a time, until it makes progress.
    template <class Work>
    void look_beside(const Work& work);
    void abandon() noexcept;

    /// Whether forming a team waits for others, since no carrier has numbers left; all ranks agree on this.
    [[nodiscard]] bool waits_to_form() const noexcept { return carriers_.empty() || carriers_.back()->is_full(); }
    [[nodiscard]] team<communicator> form_team(const rank_list& members);
    /// After `abandon`: whether some rank has not responded, so that MPI may still read or write this rank's memory.
    [[nodiscard]] bool holds_memory() const noexcept { return shutdown_.holds_memory(); }

    /// MPI's own collective, if MPI has this one for this operator on these elements; null otherwise.
    template <class Op, class T>
    [[nodiscard]] static constexpr native_function native(std::string_view collective) noexcept;
    [[nodiscard]] bool may_delegate() const noexcept { return carrier_ == nullptr; }  // MPI does not know about teams
    [[nodiscard]] const char* prefers_native(std::string_view collective, std::size_t bytes) const noexcept;
    [[nodiscard]] static constexpr const char* native_name(std::string_view collective) noexcept;

  private:
    using clock = std::chrono::steady_clock;
    struct checked {};

    communicator(checked, MPI_Comm base, ownership how, const mpi::tuning& numbers, const machine& node);
    communicator(std::shared_ptr<detail::carrier> by, const rank_list& members, std::uint32_t number,
                 const mpi::tuning& numbers);
    void poll_occasionally() {
        constexpr unsigned check_interval = 256;
        if (++polls_ % check_interval == 0) control_.poll();
        control_.throw_if_failed(latest_call_);
    }
    void require_progress(const waiting& where, clock::time_point now, allfold::detail::stall_timer& timer);
    void require_presence(waiting where, clock::time_point recently);
    void notify_blocked(const waiting& where);
    void depart() noexcept;
    void end_carriers();
    [[nodiscard]] bool leave_carrier(bool clean);

    mpi::tuning tuning_;
    int exceptions_ = std::uncaught_exceptions();
    std::shared_ptr<detail::carrier> carrier_;  // of a team
    detail::carriers carriers_;                 // of teams formed from this communicator
    detail::handle job_;
    bool oversubscribed_;  // more ranks than CPUs on this node
    lane next_lane_ = 0;
    const char* latest_call_ = "collective";
    unsigned polls_ = 0;
    allfold::detail::opened_lanes opened_;
    allfold::detail::known_signatures known_;
    allfold::detail::bounce_pool pool_{allfold::detail::max_overhead + tuning_.eager_bytes};
    detail::outbox outbox_{job_, pool_, tuning_};
    mutable detail::inbox inbox_{job_, pool_, known_, tuning_};
    detail::control control_{job_, outbox_, known_, opened_, carrier_.get()};
    detail::shutdown shutdown_{job_, inbox_, outbox_, control_, tuning_, opened_, carrier_ != nullptr};
    allfold::detail::stall_timer stall_timer_, beside_timer_;
    allfold::detail::looked_after beside_;
    detail::attendance attendance_{control_, tuning_.notice};
    allfold::background background_;
};

inline communicator::communicator(checked, MPI_Comm base, ownership how, const mpi::tuning& numbers,
                                  const machine& node)
    : tuning_(numbers), job_(base, how, node, numbers.tags), oversubscribed_(job_.node().is_oversubscribed()) {
    tuning_.tags = job_.tags();
}

inline communicator::communicator(std::shared_ptr<detail::carrier> by, const rank_list& members, std::uint32_t number,
                                  const mpi::tuning& numbers)
    : tuning_(numbers),
      carrier_(std::move(by)),
      job_(carrier_->job(), members, number, carrier_->tags()),
      oversubscribed_(job_.node().is_oversubscribed()) {
    tuning_.tags = job_.tags();
}

inline team<communicator> communicator::form_team(const rank_list& members) {
    attendance_.take_over();
    control_.throw_if_failed("subset");
    if (waits_to_form()) {
        // All ranks are here or about to arrive (`undisturbed_barrier`), and must do so: nothing in flight makes
        // progress, since it could fail, and release ranks that have not arrived yet.
        detail::carriers ended;  // which stay in the list meanwhile, since they are polled while one of them waits
        for (const auto& full : carriers_)
            if (full->try_end([] { return true; })) ended.push_back(full);
        std::erase_if(carriers_, [&](const auto& full) { return std::ranges::find(ended, full) != ended.end(); });
        if (carrier_ != nullptr) carrier_->poll();  // so that what ends there does so before more is made
        carriers_.push_back(std::make_shared<detail::carrier>(job_, carrier_ != nullptr, tuning_));
        control_.poll_also(carriers_);
        detail::answerers_of_thread::add(carriers_.back(), tuning_.notice);
    }
    const std::shared_ptr<detail::carrier>& by = carriers_.back();
    const bool is_member = members.contains(rank());
    const std::uint32_t number = by->form(is_member);
    if (!is_member) return {};
    const rank_list places = members.among(by->job().members());
    return {members, nullptr, std::unique_ptr<communicator>(new communicator(by, places, number, tuning_))};
}

/// Must be done between two polls, so that posts complete and failures are noticed.
inline void communicator::progress() {
    attendance_.take_over();
    control_.throw_if_failed(latest_call_);
    outbox_.collect_loans();
    poll_occasionally();
}

template <pending_work Work>
void communicator::wait(Work& work, std::optional<std::chrono::steady_clock::time_point> deadline) {
    constexpr unsigned check_interval = 64;
    attendance_.take_over();
    stall_timer_.begin();
    for (unsigned turn = 1; !work.poll(); ++turn) {
        if (turn % check_interval == 0 && look_around(work, deadline)) break;
        if (oversubscribed_ || turn > tuning_.spins) std::this_thread::yield();
    }
    outbox_.flush_copies(oversubscribed_);
}

template <pending_work Work>
bool communicator::look_around(Work& work, std::optional<std::chrono::steady_clock::time_point> deadline) {
    attendance_.take_over();
    const waiting where = work.blocked_on();
    const auto now = clock::now();
    require_progress(where, now, stall_timer_);
    work.check();
    if (deadline && now >= *deadline) control_.time_out(where, tuning_.notice);
    return false;
}

template <class Work>
void communicator::look_beside(const Work& work) {
    const waiting where = work.blocked_on();
    const auto now = clock::now();
    if (beside_.is_this(where, now, tuning_.notice)) require_progress(where, now, beside_timer_);
}

/// Throws if waiting is in vain, and notifies the ranks that this one has been waiting for too long.
[[gnu::noinline]] inline void communicator::require_progress(const waiting& where, clock::time_point now,
                                                             allfold::detail::stall_timer& timer) {
    control_.poll();
    control_.throw_if_failed(where.what);
    detail::answerers_of_thread::poll(now);
    if (timer.is_notice_due(where, now, tuning_.notice)) notify_blocked(where);
    // What a rank sent before it left arrives before its control message, but may not have reached the engine yet.
    if (now - timer.since() > tuning_.notice) require_presence(where, now - tuning_.notice);
}

/// Throws if a rank that this one waits for left before `recently`: a peer, or, in a team, a borrower. One that has
/// left a communicator of its own still receives what it was sent.
inline void communicator::require_presence(waiting where, clock::time_point recently) {
    const auto has_left = [&](int r) {
        const auto left = control_.departure_of(r);
        return left && *left < recently;
    };
    if (where.peer < 0 && carrier_ != nullptr)
        for (const int borrower : outbox_.borrowers_on(where.on))
            if (has_left(borrower)) where.peer = borrower;
    if (has_left(where.peer)) control_.throw_departed(where);
}

/// Notifies the ranks that this one waits for: a peer, or, while its memory is lent, the borrowers.
inline void communicator::notify_blocked(const waiting& where) {
    const auto* const opened = opened_.find(where.on);
    const signature* const call = opened != nullptr ? &opened->what : nullptr;
    if (where.peer >= 0) return control_.notify_blocked(where.peer, where, call);
    for (const int peer : outbox_.borrowers_on(where.on)) control_.notify_blocked(peer, where, call);
}

/// Called from an exception handler, while the exception that is the cause can still be inspected.
inline void communicator::abandon() noexcept {
    attendance_.take_over();
    if (detail::is_finalized()) return;  // it is a global object, and no rank waits for this one any more
    const allfold::detail::cause cause = allfold::detail::current_cause();
    try {
        control_.fail(cause.code, cause.why);
        shutdown_.wait_for_release();
    } catch (const std::exception&) {  // MPI itself fails: there is nothing left to try
    }
    outbox_.forget_lenders();
}

inline void communicator::depart() noexcept {
    attendance_.end();
    if (detail::is_finalized()) return;
    bool clean = size() == 1;
    try {
        for (const auto& each : carriers_) each->close();
        if (std::uncaught_exceptions() > exceptions_ && size() > 1)
            control_.fail(errc::peer_failed, "it exited with an exception");
        clean = clean || (carrier_ != nullptr ? shutdown_.leave_team() : shutdown_.quiesce());
        end_carriers();
        if (carrier_ != nullptr) clean = leave_carrier(clean);
    } catch (const std::exception&) {  // MPI itself fails
        clean = false;
    }
    job_.close(clean);
    if (!clean) shutdown_.leak();
}

/// Teams may outlive their parent. If that is no team, nobody is left to wait until the last one ends, so the carrier's
/// communicator is never freed.
inline void communicator::end_carriers() {
    const auto go_on = [this] {
        background::progress_all();  // others may arrive here only once operations in flight have made progress
        control_.poll();
        return !control_.has_failed();
    };
    for (const auto& each : carriers_) {
        if (carrier_ != nullptr) {
            each->end_by_itself();
            carrier_->keep(each);
            continue;
        }
        if (go_on() && each->try_end(go_on)) continue;
        each->outlive_parent();
        new std::shared_ptr<detail::carrier>(each);  // MPI may still write to it
    }
    carriers_.clear();
}

/// A failure may have become known only after this rank had left its team, and answers may still be in flight.
inline bool communicator::leave_carrier(bool clean) {
    if (control_.has_failed()) control_.send_farewells();
    outbox_.collect_copies();
    clean = clean && outbox_.empty();
    carrier_->leave(job_, outbox_, inbox_.received(), clean);
    return clean;
}

template <class Op, class T>
constexpr communicator::native_function communicator::native(std::string_view collective) noexcept {
    if constexpr (detail::has_native_operator<Op, T>)
        if (detail::native_collective(collective) != nullptr)
            return [](communicator& self, const native_operands& with) {
                self.control_.throw_if_failed(with.what);
                detail::native_collective(with.what)->run(with, detail::native_fold_of<Op, T>(), self.native_handle());
            };
    return nullptr;
}

inline const char* communicator::prefers_native(std::string_view collective, std::size_t bytes) const noexcept {
    const auto* const own = detail::native_collective(collective);
    if (own == nullptr || bytes < tuning_.*own->from_bytes) return nullptr;
    return "delegated to MPI's own collective: measured to be faster";
}

constexpr const char* communicator::native_name(std::string_view collective) noexcept {
    const auto* const own = detail::native_collective(collective);
    return own != nullptr ? own->native_name : "";
}

static_assert(outer_communicator<communicator> && team_forming_communicator<communicator>);

/// Whether anyone has initialised MPI, and possibly finalised it since.
[[nodiscard]] inline bool initialized() noexcept { return detail::is_initialized(); }
/// Whether anyone has finalised MPI: no communicator can be made any more.
[[nodiscard]] inline bool finalized() noexcept { return detail::is_finalized(); }

/// Runs `fn(comm)` in every process of the job: initialises MPI if it is not initialised yet (with
/// MPI_THREAD_SERIALIZED), makes a communicator of MPI_COMM_WORLD, and finalises MPI if it initialised it. A rank that
/// throws prints its exception and aborts the whole job, so no rank is left hanging. Returns EXIT_SUCCESS, for `main`.
/// Throws `bad_argument` if MPI is finalised: MPI can run only once per process.
///
///     int main() {
///         return allfold::mpi::run([](auto& comm) { ... });
///     }
template <class Fn>
int run(Fn&& fn, const tuning& numbers = {}) {
    if (detail::is_finalized()) detail::require_running();
    const bool mine = !detail::is_initialized();
    if (mine) {
        int level = 0;
        detail::check(ALLFOLD_MPI(Init_thread)(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
    }
    const auto give_up = [](const char* why, bool is_cause) {
        if (detail::is_finalized()) throw;  // no rank waits for this one any more
        int rank = 0;
        ALLFOLD_MPI(Comm_rank)(MPI_COMM_WORLD, &rank);
        // The rank that is the cause is about to abort the job; let its message be the one that is seen.
        if (!is_cause) std::this_thread::sleep_for(std::chrono::seconds(2));
        std::fprintf(stderr, "allfold: rank %d: %s\n", rank, why);
        std::fflush(stderr);
        std::this_thread::sleep_for(std::chrono::milliseconds(200));  // MPICH's launcher may lose the latest output
        ALLFOLD_MPI(Abort)(MPI_COMM_WORLD, 1);
    };
    try {
        communicator comm(MPI_COMM_WORLD, duplicate, numbers);
        try {
            if constexpr (allfold::detail::require_rank_function<Fn, communicator>()) fn(comm);
            comm.background().throw_unseen();
        } catch (const error& e) {
            give_up(e.what(), e.code() != errc::peer_failed);
        } catch (const std::exception& e) {
            give_up(e.what(), true);
        } catch (...) {
            give_up("an exception", true);
        }
    } catch (const std::exception& e) {
        give_up(e.what(), true);
    }
    if (mine && !detail::is_finalized()) ALLFOLD_MPI(Finalize)();
    return 0;
}

}  // namespace allfold::mpi
