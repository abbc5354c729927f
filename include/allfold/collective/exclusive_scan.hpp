// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include "allfold/collective/detail/verbs.hpp"
#include "allfold/schedule/all_read.hpp"
#include "allfold/schedule/direct.hpp"
#include "allfold/schedule/dissemination.hpp"
#include "allfold/schedule/two_level.hpp"

/// @file
/// Every rank gets the fold of the operands before its own.

namespace allfold {
namespace detail {

struct exclusive_scan_collective : folding_verbs<exclusive_scan_collective> {
    template <class Algorithm>
    using schedule_in = typename Algorithm::exclusive_scan;

    static constexpr contract promise{
        .name = "exclusive_scan",
        .folds = true,
        .input = [](const setting& s, int block) { return content::of(s.rank, block); },
        .result = [](const setting& s, int block) { return content{block, 0, s.rank}; },
    };
    static constexpr candidate in_memory[]{
        when<all_read::exclusive_scan>(everyone_folds_all, "small: one round, everyone folds its prefix"),
        when<dissemination::exclusive_scan>(short_scan, "short: the fewest rounds for every P"),
        when<direct::exclusive_scan>(always,
                                     "large, shared memory: each rank folds one slice of all prefixes, every byte is "
                                     "read and written once"),
        when<all_read::exclusive_scan>(always, "one bracketing: everyone folds its prefix"),
    };
    static constexpr candidate by_messages[]{
        when<dissemination::exclusive_scan>(always, "the fewest rounds for every P"),
        when<all_read::exclusive_scan>(always, "one bracketing: everyone folds its prefix"),
    };
    static constexpr candidate in_levels[]{
        when<two_level::exclusive_scan>(always,
                                        "threads within processes: two levels, the fewest rounds between processes"),
    };

    [[nodiscard]] static shape lay_out(const arguments_given& call) {
        if (!call.in_place) call.require_rows("the output", call.output_rows, call.input_rows);
        return shape::whole(call.input_rows, call.where.rank);
    }
};

}  // namespace detail

/// Afterwards rank r > 0 holds x0 ∘ x1 ∘ ... ∘ x(r-1), element by element. Rank 0 holds the identity of the operator;
/// if the operator has none, the result of rank 0 is left unchanged. `with_identity(op, e)` gives it one, and
/// `without_identity(op)` always leaves rank 0 unchanged.
///
///     exclusive_scan(comm, x, op, options...)          in place
///     exclusive_scan(comm, in, out, op, options...)    out of place
///     value = exclusive_scan(comm, x, op, options...)  of a single object, as in `all_reduce`
///
/// - For a single object that is const or a temporary, the operator must have an identity.
/// - Shapes, order, errors: as in `inclusive_scan`.
/// - Cost: on shared memory, 1 round if small; if large, 2 rounds and at most n folds, every byte read and written
///   once; otherwise ceil(log2 P) rounds of n elements, for every P.
/// - Example: examples/collectives.cpp
inline constexpr detail::exclusive_scan_collective exclusive_scan{};

}  // namespace allfold
