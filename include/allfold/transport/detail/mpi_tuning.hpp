// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <chrono>
#include <cstddef>

#include "allfold/transport/detail/mpi_calls.hpp"

/// @file
/// The numbers of the MPI transport.

namespace allfold::mpi {

/// The numbers of the MPI transport, with what was measured for each.
struct tuning {
    /// Up to here a message is copied and comes with its envelope. With a limit of 16 KiB messages of 32 and 64 KiB
    /// take 1.3 to 1.9 times as long; one of 128 KiB is no gain (two processes, Open MPI 4.1 and MPICH 4.0).
    std::size_t eager_bytes = std::size_t{64} << 10;
    /// Parts from here on go by themselves where the message as a whole does not come with its envelope.
    std::size_t long_bytes = std::size_t{4} << 10;
    /// The longest message that MPI is given; longer ones go in pieces. Counts are `int` before MPI-4.
    std::size_t piece_bytes = MPI_VERSION >= 4 ? std::size_t{1} << 62 : std::size_t{1} << 30;
    /// Tags to use; 0: as many as MPI has.
    int tags = 0;
    /// Polls before a waiting rank begins to give its turns away; with more ranks on a node than processors it does so
    /// from the first.
    unsigned spins = 20000;
    /// A rank that is stuck for so long notifies the one that it waits for.
    std::chrono::milliseconds notice{100};
    /// After a failure a rank waits at most so long for others to let go of its memory.
    std::chrono::milliseconds patience{3000};

    /// Operands from so many bytes on are left to MPI's own collective, for operators that it knows; as they stand,
    /// none. Two processes: after an agreement of 0.4 to 1 us MPI's own is faster in few cells (Open MPI: all_reduce
    /// of 256 KiB 1.1 times, exclusive scans from 4 MiB 1.4 times), and slower in others by far (MPICH: scans 17
    /// times).
    std::size_t native_from = std::size_t{1} << 62;
    std::size_t native_all_reduce_from = std::size_t{1} << 62;

    friend bool operator==(const tuning&, const tuning&) = default;
};

}  // namespace allfold::mpi
