// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include "allfold/collective/detail/verbs.hpp"
#include "allfold/schedule/all_read.hpp"
#include "allfold/schedule/binomial.hpp"
#include "allfold/schedule/direct.hpp"
#include "allfold/schedule/two_level.hpp"

/// @file
/// The root gets the fold of all operands.

namespace allfold {
namespace detail {

struct reduce_collective : folding_verbs<reduce_collective> {
    template <class Algorithm>
    using schedule_in = typename Algorithm::reduce;

    static constexpr contract promise{
        .name = "reduce",
        .folds = true,
        .rooted = true,
        .input = [](const setting& s, int block) { return content::of(s.rank, block); },
        .result = [](const setting& s, int block) { return s.rank == s.root ? content{block, 0, s.size} : content{}; },
    };
    static constexpr candidate in_memory[]{
        when<all_read::reduce>(everyone_folds_all, "small: the root reads all operands in one round"),
        when<direct::reduce>(always, "large, shared memory: each rank folds one slice"),
    };
    static constexpr candidate by_messages[]{
        when<binomial::reduce>(always, "the fewest rounds, in rank order"),
    };
    static constexpr candidate in_levels[]{
        when<two_level::reduce>(always, "threads within processes: two levels, the fewest rounds between processes"),
    };

    [[nodiscard]] static shape lay_out(const arguments_given& call) {
        call.require_root();
        const bool is_root = call.where.rank == call.where.root;
        if (!call.in_place && is_root) call.require_rows("the output", call.output_rows, call.input_rows);
        shape s = shape::whole(call.input_rows, call.where.size);
        if (!is_root) s.result_rows = 0;
        s.receives = is_root;
        return s;
    }
};

}  // namespace detail

/// Afterwards the root holds x0 ∘ x1 ∘ ... ∘ x(P-1), element by element. Other ranks get nothing.
///
///     reduce(comm, x, op, options...)          in place; x is unchanged except at the root
///     reduce(comm, in, out, op, options...)    out of place: `out` is used at the root only
///     total = reduce(comm, x, op, options...)  of a single object, as in `all_reduce`: elsewhere returns x
///
/// - Shapes: the same number n of elements on every rank, possibly 0.
/// - Order: as in `all_reduce`, with the same bits: rank order for every root.
/// - Cost: small, on shared memory, 1 round in which the root reads (P-1)·n elements; large, 2 rounds in which each
///   rank sends and folds (P-1)/P·n elements. `binomial{}` takes ceil(log2 P) rounds of n elements.
/// - Errors: as in `all_reduce`; `bad_rank` for a root outside [0, P), `mismatch` for different roots.
/// - Example: examples/collectives.cpp
inline constexpr detail::reduce_collective reduce{};

}  // namespace allfold
