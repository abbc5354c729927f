// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include "allfold/collective/detail/verbs.hpp"
#include "allfold/schedule/all_read.hpp"
#include "allfold/schedule/direct.hpp"
#include "allfold/schedule/dissemination.hpp"
#include "allfold/schedule/two_level.hpp"

/// @file
/// Every rank gets the fold of the operands up to and including its own.

namespace allfold {
namespace detail {

struct inclusive_scan_collective : folding_verbs<inclusive_scan_collective> {
    template <class Algorithm>
    using schedule_in = typename Algorithm::inclusive_scan;

    static constexpr contract promise{
        .name = "inclusive_scan",
        .folds = true,
        .input = [](const setting& s, int block) { return content::of(s.rank, block); },
        .result = [](const setting& s, int block) { return content{block, 0, s.rank + 1}; },
    };
    static constexpr candidate in_memory[]{
        when<all_read::inclusive_scan>(everyone_folds_all, "small: one round, everyone folds its prefix"),
        when<dissemination::inclusive_scan>(short_scan, "short: the fewest rounds, one fold in each"),
        when<direct::inclusive_scan>(always,
                                     "large, shared memory: each rank folds one slice of all prefixes, every byte is "
                                     "read and written once"),
        when<all_read::inclusive_scan>(always, "one bracketing: everyone folds its prefix"),
    };
    static constexpr candidate by_messages[]{
        when<dissemination::inclusive_scan>(always, "the fewest rounds, one fold in each"),
        when<all_read::inclusive_scan>(always, "one bracketing: everyone folds its prefix"),
    };
    static constexpr candidate in_levels[]{
        when<two_level::inclusive_scan>(always,
                                        "threads within processes: two levels, the fewest rounds between processes"),
    };

    [[nodiscard]] static shape lay_out(const arguments_given& call) {
        if (!call.in_place) call.require_rows("the output", call.output_rows, call.input_rows);
        return shape::whole(call.input_rows, call.where.rank + 1);
    }
};

}  // namespace detail

/// Afterwards rank r holds x0 ∘ x1 ∘ ... ∘ xr, element by element.
///
///     inclusive_scan(comm, x, op, options...)          in place
///     inclusive_scan(comm, in, out, op, options...)    out of place
///     value = inclusive_scan(comm, x, op, options...)  of a single object, as in `all_reduce`
///
/// - Shapes: the same number n of elements on every rank, possibly 0.
/// - Order: always rank order.
/// - Cost: on shared memory, 1 round if small; if large, 2 rounds and at most n folds, every byte read and written
///   once; otherwise ceil(log2 P) rounds of n elements and n folds each.
/// - Errors: as in `all_reduce`.
/// - Example: examples/collectives.cpp
inline constexpr detail::inclusive_scan_collective inclusive_scan{};

}  // namespace allfold
