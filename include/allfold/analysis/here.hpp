// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

/// @file
/// Tells `explore` where in a program a call is.

namespace allfold {

/// Returns the communicator itself; if it is an explored one, findings name the file and the line of this call:
///
///     send(here(comm), x, to{3})
///     all_reduce(here(comm), x, sum())
///
/// With any other communicator it does nothing. Do not pass the last two arguments.
template <class Comm>
Comm& here(Comm& comm, const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    if constexpr (requires { comm.note_place(file, line); }) comm.note_place(file, line);
    return comm;
}

}  // namespace allfold
