// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "allfold/error.hpp"
#include "allfold/schedule/contract.hpp"
#include "allfold/transport/communicator.hpp"
#include "allfold/transport/detail/rank_board.hpp"
#include "allfold/transport/detail/rank_names.hpp"
#include "allfold/transport/detail/thread_bell.hpp"

/// @file
/// How a thread waits: it spins, yields, then sleeps, and publishes which rank it is waiting for.

namespace allfold::detail {

using wait_deadline = std::optional<std::chrono::steady_clock::time_point>;

inline void publish(rank_board& own, const waiting& where) noexcept {
    own.what.store(where.what, std::memory_order_relaxed);
    own.round.store(where.round, std::memory_order_relaxed);
    own.rounds.store(where.rounds, std::memory_order_relaxed);
    own.waits_for.store(where.peer, std::memory_order_relaxed);
}

/// Which rank waits for which, one line per rank.
[[nodiscard, gnu::cold]] inline std::string waiting_table(const rank_board* boards, int size, const rank_names& name) {
    std::string table;
    for (int r = 0; r < size; ++r) {
        const rank_board& b = boards[r];
        table += text({"\n  rank ", name(r)});
        if (const int peer = b.waits_for.load(); peer >= 0)
            table += text({" waits for rank ", name(peer), " in ", b.what.load(), ", round ", b.round.load() + 1,
                           " of ", b.rounds.load()});
        else if (b.rounds.load() > 0)
            table += text({" waits in ", b.what.load(), ", for no rank in particular"});
        else
            table += b.departed.load() ? " has returned" : " is not waiting in a collective";
    }
    return table;
}

/// Spins and yields as `tuning` prescribes, then sleeps. What it uses of the rank:
///
/// - `poll_briefly(peer)` spins for a moment, or until something arrives from the peer; returns the number of spins;
/// - `answer_calls()` takes in what is urgent, so that peers that have called for this rank can continue;
/// - `check(work, deadline)` throws if waiting is futile, and returns true if the work turned out to be done;
/// - `has_failed()`: whether the next check will throw.
template <class Rank, pending_work Work, class Tuning>
[[gnu::noinline]] void wait_long(Rank& rank, rank_board& own, const Tuning& tuning, Work& work,
                                 wait_deadline deadline) {
    using namespace std::chrono;
    own.bell.bind_to_this_thread();
    bool done = false;
    for (int turn = 0; !done && turn < tuning.yields; ++turn) {
        std::this_thread::yield();
        done = work.poll();
        if (!done && turn % 16 == 15) done = rank.check(work, deadline) || work.poll();
    }
    const auto news = [&] {
        rank.answer_calls();
        done = work.poll();
        if (!done) {
            publish(own, work.blocked_on());
            work.check();
        }
        return done || rank.has_failed();
    };
    while (!done) {
        auto until = steady_clock::now() + seconds(1);
        if (deadline && *deadline < until) until = *deadline;
        thread_bell::mine().sleep(news, sleep_limit(work, until));
        if (!done) done = work.poll() || rank.check(work, deadline);
    }
    publish(own, {});
}
template <class Rank, pending_work Work, class Tuning>
void wait(Rank& rank, rank_board& own, const Tuning& tuning, Work& work, wait_deadline deadline) {
    if (work.poll()) return;
    for (int spins = 0; spins < tuning.spins;) {
        spins += rank.poll_briefly(work.blocked_on().peer);
        if (work.poll()) return;
        if (spins % 128 == 0 && rank.check(work, deadline)) return;
    }
    wait_long(rank, own, tuning, work, deadline);
}

}  // namespace allfold::detail
