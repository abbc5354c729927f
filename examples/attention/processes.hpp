// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <unistd.h>

#include "examples/attention/attention.hpp"
#include "examples/attention/distributed.hpp"
#include "examples/attention/report.hpp"
#include <allfold/allfold.hpp>
#include <allfold/transport/mpi.hpp>

/// @file
/// The program over MPI: rank 0 alone reads the command line and the files, prints and writes. The other processes join
/// it in computing attention whenever it does.

namespace attention {

/// What the other processes do next.
enum class order : std::uint8_t { attend_in_float, attend_in_double, leave };

/// Sends the order of rank 0 to all ranks.
[[nodiscard]] inline order agree(team ranks, order what = order::leave) {
    allfold::broadcast(ranks, what);
    return what;
}

/// Afterwards all ranks have the problem and the options of rank 0.
template <std::floating_point T>
void share(team ranks, problem<T>& p, rank_options& options) {
    const auto share_each = [&](auto&... parts) { (allfold::broadcast(ranks, parts), ...); };
    const auto share_sequence = [&](auto& sequence) {
        std::size_t length = sequence.size();
        share_each(length);
        sequence.resize(length);
        share_each(sequence);
    };
    share_each(p.size, p.scale, p.causal, p.from_top_left, options.window, options.check, options.stored);
    share_sequence(options.algorithm);
    share_sequence(p.q);
    share_sequence(p.k);
    share_sequence(p.v);
}

/// The ranks on the same machine as this one, and its cores, whichever of them this process is bound to.
[[nodiscard]] inline cpu_load cpu_load_of(team ranks) {
    MPI_Comm node = MPI_COMM_NULL;
    cpu_load around;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, ranks.rank(), MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &around.ranks);
    MPI_Comm_free(&node);
    around.processors = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
    return around;
}

/// Runs `program(ranks)`, which returns an exit status, on rank 0. If that is not 0, the whole job ends with it.
template <class Program>
[[nodiscard]] int lead(Program program) {
    return allfold::mpi::run([&](team ranks) {
        const auto follow = [&](order what) {
            if (what == order::attend_in_float) attend_with_rank_0<float>(ranks);
            if (what == order::attend_in_double) attend_with_rank_0<double>(ranks);
            return what != order::leave;
        };
        if (ranks.rank() != 0) {
            while (follow(agree(ranks))) {
            }
            return;
        }
        if (const int status = program(ranks); status != 0) {
            MPI_Abort(MPI_COMM_WORLD, status);
        }
        static_cast<void>(agree(ranks, order::leave));
    });
}

}  // namespace attention
