// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "allfold/transport/background.hpp"
#include "allfold/transport/detail/mpi_answers.hpp"
#include "allfold/transport/detail/mpi_calls.hpp"
#include "allfold/transport/detail/mpi_control.hpp"
#include "allfold/transport/detail/mpi_handle.hpp"
#include "allfold/transport/detail/mpi_inbox.hpp"
#include "allfold/transport/detail/mpi_outbox.hpp"
#include "allfold/transport/detail/mpi_tuning.hpp"

/// @file
/// How a communicator over MPI ends: with all ranks, so that no message stays in flight, or, after a failure, alone.

namespace allfold::mpi::detail {

/// Receives what still arrives, and waits for what has yet to be sent.
class shutdown {
  public:
    shutdown(const handle& job, inbox& in, outbox& out, control& messages, const tuning& numbers,
             const allfold::detail::opened_lanes& opened, bool is_team)
        : job_(job),
          inbox_(in),
          outbox_(out),
          control_(messages),
          tuning_(numbers),
          opened_(opened),
          is_team_(is_team) {}

    /// Whether MPI may still access memory that is not ours.
    [[nodiscard]] bool holds_memory() const noexcept { return outbox_.lends() || inbox_.stores_in_place(); }
    /// After a failure: waits for others to let go of this rank's memory, but only the first time, and up to
    /// `patience`, or until all borrowers have left the team.
    void wait_for_release();
    /// Returns true when all ranks have arrived here and none of our messages are in flight any more.
    [[nodiscard]] bool quiesce();
    /// The same for a team, which waits for all others only after a failure, since its number is never reused. What MPI
    /// has not copied must be read; returns false if its reader has left the team.
    [[nodiscard]] bool leave_team();
    /// Requests are still in flight: the memory that they refer to is kept for good.
    void leak() noexcept;

  private:
    using clock = std::chrono::steady_clock;

    void drain() {
        if (is_team_)
            inbox_.drain_lanes([this](auto visit) {
                opened_.for_each_recent(visit);
                visit(allfold::detail::envelopes_lane);
                visit(allfold::detail::data_lane);
            });
        else
            inbox_.drain([this] { control_.poll(); });
        control_.poll();  // on behalf of its teams too
    }
    template <class Ready, class Begin>
    [[nodiscard]] bool run_collective(Ready ready, Begin begin, bool is_last);
    /// May be more than expected: the program may have sent something on a communicator that it lets us borrow.
    [[nodiscard]] bool has_received_all() const noexcept {
        return inbox_.received() + control_.received() >= *expected_ && !inbox_.is_draining() && outbox_.empty();
    }
    /// Whether nobody is left in the team to read what is still in transit.
    [[nodiscard]] bool are_readers_gone() const {
        return std::ranges::all_of(outbox_.readers(), [this](int r) { return control_.is_gone(r); });
    }
    [[nodiscard]] bool lends_in_vain() const {
        return is_team_ && outbox_.lends() && !inbox_.stores_in_place() && are_readers_gone();
    }

    /// When the readers of what is in transit were asked last, and how soon they are asked again.
    struct inquiry {
        clock::time_point last = clock::now();
        clock::duration pause;
    };
    /// Asks them whether they have left the team: those that have by then answer through their carriers.
    void ask_readers(inquiry& made) {
        if (clock::now() - made.last <= made.pause) return;
        made = {.pause = made.pause * 2};
        for (const int r : outbox_.readers()) control_.notify_blocked(r, {"the end of a team"}, nullptr);
    }

    const handle& job_;
    inbox& inbox_;
    outbox& outbox_;
    control& control_;
    const tuning& tuning_;
    const allfold::detail::opened_lanes& opened_;
    bool is_team_;
    bool has_waited_ = false;
    /// How many MPI messages have been sent to this rank; MPI may write to it when all else is gone.
    std::unique_ptr<std::uint64_t> expected_ = std::make_unique<std::uint64_t>(0);
};

inline void shutdown::wait_for_release() {
    inbox_.cancel();
    const bool is_first = !std::exchange(has_waited_, true);
    inquiry asked{.pause = tuning_.notice};
    for (const auto until = clock::now() + tuning_.patience; is_first; std::this_thread::yield()) {
        drain();
        outbox_.collect_loans();
        outbox_.collect_copies();
        if (!holds_memory() || lends_in_vain() || clock::now() >= until) break;
        if (is_team_) ask_readers(asked);  // the failure may have come from another rank than those
    }
}

/// Starts an MPI collective with `begin(request)` once `ready()`, and returns when all ranks have done so. Receives
/// messages meanwhile; if `is_last`, only until this rank is ready. This thread's operations in flight on other
/// communicators make progress, and it answers those that wait for it in teams. Returns false if some rank does not
/// arrive after a failure.
template <class Ready, class Begin>
bool shutdown::run_collective(Ready ready, Begin begin, bool is_last) {
    MPI_Request all = MPI_REQUEST_NULL;
    std::optional<clock::time_point> until;
    bool has_begun = false;
    for (int done = 0; done == 0; std::this_thread::yield()) {
        if (!has_begun || !is_last) drain();
        outbox_.collect_loans();
        outbox_.collect_copies();
        background::progress_all();  // others may arrive here only once those have made progress
        answerers_of_thread::poll();
        if (control_.has_failed() && !until) until = clock::now() + tuning_.patience;
        if (until && clock::now() >= *until) return false;
        if (!has_begun && ready()) {
            check(begin(&all), "a collective of MPI");
            has_begun = true;
        }
        if (has_begun) check(ALLFOLD_MPI(Test)(&all, &done, MPI_STATUS_IGNORE), "MPI_Test");
    }
    return true;
}

/// Everything sent must be received before the communicator is freed: MPI may reuse its number for the next one, which
/// would then find old control messages and unread data. So the ranks tell each other how many messages they have sent.
inline bool shutdown::quiesce() {
    const auto leave = [this](MPI_Request* request) {
        control_.depart();
        return ALLFOLD_MPI(Ibarrier)(job_.get(), request);
    };
    const auto count = [this](MPI_Request* request) {
        control_.stop_answering();
        return ALLFOLD_MPI(Ireduce_scatter_block)(outbox_.sent(), expected_.get(), 1, MPI_UINT64_T, MPI_SUM, job_.get(),
                                                  request);
    };
    const auto end = [this](MPI_Request* request) { return ALLFOLD_MPI(Ibarrier)(job_.get(), request); };
    inbox_.cancel();
    return run_collective([this] { return outbox_.empty(); }, leave, false) &&
           run_collective([] { return true; }, count, false) &&
           run_collective([this] { return has_received_all(); }, end, true);
}

inline bool shutdown::leave_team() {
    std::optional<clock::time_point> until;
    inquiry asked{.pause = tuning_.notice};
    inbox_.cancel();
    for (;; std::this_thread::yield()) {
        outbox_.collect_loans();
        outbox_.collect_copies();
        if (!control_.has_failed() && outbox_.empty() && inbox_.is_idle()) return true;
        ask_readers(asked);
        if (!control_.has_failed() && !outbox_.empty() && are_readers_gone()) return false;
        if (control_.has_failed() && !until) {
            until = clock::now() + tuning_.patience;
            control_.send_farewells();
        }
        drain();
        const bool is_all_read = outbox_.empty();
        if (until && control_.all_have_departed() && inbox_.is_idle() && (is_all_read || are_readers_gone()))
            return is_all_read;
        if (until && clock::now() >= *until) return false;
        background::progress_all();
        answerers_of_thread::poll();
    }
}

inline void shutdown::leak() noexcept {
    struct leftovers {
        inbox in;
        outbox out;
        std::unique_ptr<std::uint64_t> expected;
    };
    static_cast<void>(new (std::nothrow) leftovers{std::move(inbox_), std::move(outbox_), std::move(expected_)});
}

}  // namespace allfold::mpi::detail
