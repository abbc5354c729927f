// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

/// @file
/// Tells `explore` where in a program a call stands.

namespace allfold {

/// The communicator itself; where it is one that is explored, what is found names the file and the line of this call:
///
///     send(here(comm), x, to{3})
///     all_reduce(here(comm), x, sum())
///
/// With any other communicator it does nothing. The two arguments are not to be given.
template <class Comm>
Comm& here(Comm& comm, const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    if constexpr (requires { comm.note_place(file, line); }) comm.note_place(file, line);
    return comm;
}

}  // namespace allfold
