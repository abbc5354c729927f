// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <chrono>
#include <cstddef>
#include <exception>

#include "allfold/transport/background.hpp"
#include "allfold/transport/communicator.hpp"

/// @file
/// Where a transport can take part in the life of operations in flight.

namespace allfold::detail {

/// Normally, time and the arrival of messages are up to the clock and the transport. A communicator that controls them
/// itself (analysis/explored_communicator.hpp) specialises this, at no cost to the others.
template <class Comm>
struct task_hooks {
    /// Whether a message that could have arrived does so only when somebody looks for it.
    static constexpr bool delays_messages = false;

    /// Where in the program a call is.
    struct place {};
    static place take_place(Comm&) noexcept { return {}; }

    /// Makes a pass over everything this thread has in flight, because the program asks what has arrived: for an
    /// operation, or null.
    template <class Pass>
    static void look(Comm&, const void*, Pass pass) {
        pass();
    }
    /// A message is about to start.
    static void before_message(Comm&, bool /*is_received*/, bool /*is_to_itself*/) noexcept {}
    /// A message starts, to one rank, from one, or both. Returns the number of the call, for those that wait for it.
    template <class Sending, class Receiving>
    static std::size_t start_message(Comm&, const char*, const Sending*, const Receiving*, bool /*is_waited_for*/,
                                     const place&) {
        return 0;
    }

    /// An operation starts that ends by itself, once it `may_end`.
    static void note_start(Comm&, const void*) noexcept {}
    /// Whether an operation, all of whose messages have arrived, ends now.
    static bool may_end(Comm&, const void*, const char*) noexcept { return true; }

    /// An operation fails, and can still report which rank it waits for.
    template <class Task>
    static void note_failure(Comm&, const Task&, const std::exception_ptr&) noexcept {}

    /// An operation with a deadline starts.
    static void note_deadline(Comm&, const void*) noexcept {}
    /// Such an operation has ended.
    static void forget_deadline(Comm&, const void*) noexcept {}
    /// Throws if an unfinished operation is late; the transport itself reports which rank waits for which.
    template <class Task>
    static void require_time(Comm& comm, const Task& late) {
        if (std::chrono::steady_clock::now() < late.due()) return;
        struct {
            const Task& self;
            static bool poll() { return false; }
            [[nodiscard]] waiting blocked_on() const { return self.blocked_on(); }
            static void check() {}
        } stuck{late};
        comm.wait(stuck, late.due());
    }
    /// An operation ends now: throws if even that is late.
    template <class Task>
    static void note_end(Comm&, const Task&) noexcept {}
};

}  // namespace allfold::detail
