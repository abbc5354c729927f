// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include "allfold/collective/detail/verbs.hpp"
#include "allfold/schedule/binomial.hpp"
#include "allfold/schedule/direct.hpp"
#include "allfold/schedule/scatter_all_gather.hpp"
#include "allfold/schedule/two_level.hpp"

/// @file
/// Every rank gets the operand of the root.

namespace allfold {
namespace detail {

struct broadcast_collective : moving_verbs<broadcast_collective> {
    template <class Algorithm>
    using schedule_in = typename Algorithm::broadcast;

    static constexpr contract promise{
        .name = "broadcast",
        .rooted = true,
        .input = [](const setting& s, int block) { return s.rank == s.root ? content::of(s.rank, block) : content{}; },
        .result = [](const setting& s, int block) { return content::of(s.root, block); },
    };
    static constexpr candidate in_memory[]{
        when<scatter_all_gather::broadcast>(is_dealt_between_two, "two ranks, long: each moves one half, in one pass"),
        when<direct::broadcast>(always, "shared memory: everyone reads the root's operand"),
    };
    /// Rejected: `scatter_all_gather`. Compared with the tree, over Open MPI on two cores, from 32 B to 4 MiB it is
    /// 1.25 to 1.8 times slower among 4 ranks, and 1.3 to 1.8 times among 8.
    static constexpr candidate by_messages[]{
        when<binomial::broadcast>(always, "the fewest rounds"),
    };
    static constexpr candidate in_levels[]{
        when<two_level::broadcast>(always, "threads within processes: two levels, the fewest rounds between processes"),
    };

    [[nodiscard]] static shape lay_out(const arguments_given& call) {
        call.require_root();
        const bool is_root = call.where.rank == call.where.root;
        if (!call.in_place && is_root) call.require_rows("the input", call.input_rows, call.output_rows);
        shape s = shape::whole(call.output_rows, 1);
        s.contributes = is_root;
        s.writes = !(call.in_place && is_root);
        return s;
    }
};

}  // namespace detail

/// Afterwards every rank holds the operand of the root.
///
///     broadcast(comm, x, options...)          x is read at the root and written elsewhere
///     broadcast(comm, in, out, options...)    `in` is used at the root only
///     value = broadcast(comm, x, options...)  of a single object, as in `all_reduce`
///
/// - Shapes: the same number n of elements on every rank.
/// - Cost: on shared memory 1 round, in which the root sends (P-1)·n elements; between two ranks a long operand is
///   moved in one pass, one half by each rank. `binomial{}` takes ceil(log2 P) rounds; `scatter_all_gather{}` takes
///   twice as many, and the root sends 2·(P-1)/P·n elements.
/// - Errors: `bad_rank` for a root outside [0, P); `mismatch` for different roots, sizes or types.
/// - Example: examples/collectives.cpp
inline constexpr detail::broadcast_collective broadcast{};

}  // namespace allfold
