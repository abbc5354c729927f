// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "examples/attention/attention.hpp"
#include "examples/attention/npy.hpp"
#include "examples/attention/report.hpp"
#include <allfold/transport/traced.hpp>
#ifdef ALLFOLD_ATTENTION_MPI
#include <allfold/transport/mpi.hpp>
#endif

/// @file
/// Attention on several ranks: each attends to its share of the keys, and one all_reduce merges the results.

namespace attention {

/// What all ranks get in addition to the problem: how to merge, whether to check, and how the result will be stored.
struct rank_options {
    std::string algorithm = "auto";
    std::optional<std::size_t> window;
    bool check = true;
    npy::dtype stored = npy::dtype::float32;
};

/// The ranks: a number of threads of this process or, with ALLFOLD_ATTENTION_MPI, the processes that mpirun has
/// started.
#ifdef ALLFOLD_ATTENTION_MPI
using team = allfold::mpi::communicator&;
inline constexpr bool over_mpi = true;
#else
using team = int;
inline constexpr bool over_mpi = false;
#endif

/// The result of attention with the keys split evenly among the ranks, [head][query][value_depth]. Enters what was
/// measured into `figures`, and what each rank of this process did when into the recorder.
///
/// Defined in ranks.hpp and compiled for float and double in one file each: all algorithms together are a lot of code.
template <std::floating_point T>
[[nodiscard]] std::vector<T> attend_on_ranks(problem<T>& p, team ranks, rank_options options, report& figures,
                                             allfold::trace_recorder& recorder);

#ifdef ALLFOLD_ATTENTION_MPI
/// What the other processes do while rank 0 is in `attend_on_ranks`.
template <std::floating_point T>
void attend_with_rank_0(team ranks);
#endif

}  // namespace attention
