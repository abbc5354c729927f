// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <string>
#include <string_view>

#include "allfold/engine/task.hpp"
#include "allfold/error.hpp"
#include "allfold/transport/communicator.hpp"

/// @file
/// Aborts a communicator on all its ranks.

namespace allfold {

/// Aborts a communicator on all its ranks: each of them throws `peer_failed`, which names this rank and the reason, as
/// soon as it waits, and so does this call. Operations in flight are abandoned.
///
///     abort(comm, "the input of this rank is empty");
///
/// - Over MPI, in `mpi::run`, the job then ends, as it does after any exception.
/// - Source: MPI-4.1, section 9.7, MPI_Abort.
template <communicator Comm>
[[noreturn]] void abort(Comm& comm, std::string_view reason) {
    try {
        throw error(errc::peer_failed, detail::text({"abort: called by rank ", comm.rank(), " of ", comm.size(), ": ",
                                                     std::string(reason).c_str()}));
    } catch (...) {
        detail::abort_communicator(comm);
        throw;
    }
}

}  // namespace allfold
