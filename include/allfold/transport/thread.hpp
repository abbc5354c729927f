// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <exception>
#include <functional>

#include "allfold/transport/detail/run_threads.hpp"
#include "allfold/transport/thread_communicator.hpp"
#include "allfold/transport/thread_world.hpp"

/// @file
/// A transport whose ranks are threads of one process.

namespace allfold {

/// Calls `fn(comm)` on `size` threads, one per rank, and returns when all of them have returned. If a rank throws, all
/// others are released with `errc::peer_failed`, and the exception that was the cause is rethrown here; so is a failure
/// of a collective that only the destructor of its operation has found.
template <class Fn>
void run(int size, Fn&& fn, const thread_tuning& tuning = {}) {
    if constexpr (detail::require_rank_function<Fn, thread_communicator>()) {
        thread_world world(size, tuning);
        auto body = [&fn](thread_communicator& comm) { std::invoke(fn, comm); };  // an object, which a function is not
        if (const auto cause = detail::run_threads(world, detail::first_rank::in_a_thread, detail::rank_body(body)))
            std::rethrow_exception(cause);
    }
}

}  // namespace allfold
