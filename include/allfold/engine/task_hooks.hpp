// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <chrono>
#include <cstddef>
#include <exception>

#include "allfold/transport/background.hpp"
#include "allfold/transport/communicator.hpp"

/// @file
/// What a transport has to say about operations in flight.

namespace allfold::detail {

/// Time, and what has come by now, are the clock's and the transport's matter. A communicator on which they are its own
/// (analysis/explored_communicator.hpp) specialises this, and costs the others nothing.
template <class Comm>
struct task_hooks {
    /// A message that could have come does so only where somebody looks.
    static constexpr bool delays_messages = false;

    /// Passes over all that this thread has in flight, because the program asks what has come.
    template <class Pass>
    static void look(Comm&, Pass pass) {
        pass();
    }
    /// A message is about to start.
    static void before_message(Comm&, bool /*is_received*/) noexcept {}
    /// A message starts, to one rank or from one, or both: the number of the call, for those who wait for it.
    template <class Sending, class Receiving>
    static std::size_t start_message(Comm&, const char*, const Sending*, const Receiving*, bool /*is_waited_for*/) {
        return 0;
    }

    /// An operation starts that ends by itself, when it `may_end`.
    static void note_start(Comm&, const void*) noexcept {}
    /// Whether one ends now all of whose messages have come.
    static bool may_end(Comm&, const void*, const char*) noexcept { return true; }

    /// One fails, and still says whom it waits for.
    template <class Task>
    static void note_failure(Comm&, const Task&, const std::exception_ptr&) noexcept {}

    /// An operation starts that is due some time.
    static void note_deadline(Comm&, const void*) noexcept {}
    /// It is over.
    static void forget_deadline(Comm&, const void*) noexcept {}
    /// Throws where an operation is late that is not done; the transport itself says who waits for whom.
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
    /// One ends now: throws where even that is late.
    template <class Task>
    static void note_end(Comm&, const Task&) noexcept {}
};

}  // namespace allfold::detail
