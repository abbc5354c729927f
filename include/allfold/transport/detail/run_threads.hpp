// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <thread>

#include "allfold/data/detail/heap_array.hpp"
#include "allfold/transport/detail/cause.hpp"
#include "allfold/transport/thread_communicator.hpp"
#include "allfold/transport/thread_world.hpp"

/// @file
/// Runs each rank of a world in a thread, and determines what to throw when all have returned.

namespace allfold::detail {

/// What every rank executes: a callable, held by its address.
class rank_body {
  public:
    template <class Fn>
    explicit rank_body(Fn& fn)
        : fn_(const_cast<void*>(static_cast<const void*>(std::addressof(fn)))),
          call_([](void* f, thread_communicator& comm) { (*static_cast<Fn*>(f))(comm); }) {}
    void operator()(thread_communicator& comm) const { call_(fn_, comm); }

  private:
    void* fn_;
    void (*call_)(void*, thread_communicator&);
};

/// The exception that was the first cause of a failure; null if no rank has thrown. The rank that failed first may have
/// thrown one of our errors afterwards, which only reports the failure; an exception of its own that is not one of ours
/// is preferred. If the rank recorded here had only learned of a failure in a team, the exception of the rank that
/// failed there is.
[[nodiscard]] inline std::exception_ptr first_cause(thread_world& world, const heap_array<std::exception_ptr>& thrown) {
    std::exception_ptr any;
    for (const auto& each : thrown)
        if (!any || (each && is_peer_failure(any))) any = each;
    const int culprit = world.broken_by();
    if (!any || culprit < 0) return any;
    const std::exception_ptr& own = thrown[static_cast<std::size_t>(culprit)];
    std::exception_ptr cause = world.cause();
    if (!cause || (own && !is_error(own))) cause = own ? own : any;
    return is_peer_failure(cause) && !is_peer_failure(any) ? any : cause;
}

/// Where the first rank runs.
enum class first_rank { in_a_thread, here };

/// Runs `body` for all ranks of a world; returns, when all have returned, the exception to be thrown, or null.
/// `afterwards` is called on the calling thread if the first rank runs here, once that has departed and while others
/// may still be running.
[[nodiscard]] inline std::exception_ptr run_threads(thread_world& world, first_rank where, rank_body body,
                                                    const std::function<void()>& afterwards = {}) {
    heap_array<std::exception_ptr> thrown(static_cast<std::size_t>(world.size()));
    const auto give_up = [&](int rank) {
        thrown[static_cast<std::size_t>(rank)] = std::current_exception();
        world.fail(rank, current_cause());
    };
    const auto one_rank = [&](int rank) {
        try {
            thread_communicator comm = world.communicator(rank);
            try {
                body(comm);
                comm.background().throw_unseen();
            } catch (...) {
                give_up(rank);
            }
        } catch (...) {
            give_up(rank);
        }
    };
    heap_array<std::thread> threads;
    int next = where == first_rank::here ? 1 : 0;
    try {
        threads = heap_array<std::thread>(thrown.size());
        for (; next < world.size(); ++next) threads[static_cast<std::size_t>(next)] = std::thread(one_rank, next);
    } catch (...) {  // out of memory or threads: the ranks already running wait for the others
        give_up(next);
    }
    if (where == first_rank::here && next == world.size()) {
        one_rank(0);
        if (afterwards) afterwards();
    }
    for (std::thread& each : threads)
        if (each.joinable()) each.join();
    return first_cause(world, thrown);
}

}  // namespace allfold::detail
