// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <exception>

/// @file
/// Tells `explore` where in a program a call is.

namespace allfold {

namespace detail {

/// A communicator that wants to know where calls are.
template <class Comm>
concept noting_places = requires(Comm& comm) { comm.note_place("", 0u); };

/// Ends with the statement that calls `here`, and the place of that statement with it. If an exception ends it, what is
/// thrown comes from there, even if no call has begun.
template <class Comm>
struct statement {};
template <noting_places Comm>
class statement<Comm> {
  public:
    statement() = default;
    statement(const statement&) = delete;
    statement& operator=(const statement&) = delete;
    ~statement() {
        if (comm_ == nullptr) return;
        comm_->forget_place();
        if (std::uncaught_exceptions() > exceptions_) comm_->note_thrown_at(file_, line_);
    }
    void begin(Comm& comm, const char* file, unsigned line) {
        comm.note_place(file, line);
        comm_ = &comm;
        file_ = file;
        line_ = line;
    }

  private:
    Comm* comm_ = nullptr;
    const char* file_ = nullptr;
    unsigned line_ = 0;
    int exceptions_ = std::uncaught_exceptions();
};

}  // namespace detail

/// Returns the communicator itself; if it is an explored one, findings name the file and the line of this call:
///
///     send(here(comm), x, to{3})
///     all_reduce(here(comm), x, sum())
///
/// They name it for the first call of the same statement on this communicator, and for every start of what that call
/// prepares. With any other communicator it does nothing. Do not pass the last three arguments.
template <class Comm>
Comm& here(Comm& comm, const char* file = __builtin_FILE(), unsigned line = __builtin_LINE(),
           detail::statement<Comm>&& from_here = {}) {
    if constexpr (detail::noting_places<Comm>) from_here.begin(comm, file, line);
    return comm;
}

}  // namespace allfold
