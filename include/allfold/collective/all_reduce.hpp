// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include "allfold/collective/detail/verbs.hpp"
#include "allfold/schedule/all_read.hpp"
#include "allfold/schedule/circulant.hpp"
#include "allfold/schedule/direct.hpp"
#include "allfold/schedule/flat_tree.hpp"
#include "allfold/schedule/recursive_doubling.hpp"
#include "allfold/schedule/recursive_halving.hpp"
#include "allfold/schedule/ring.hpp"
#include "allfold/schedule/two_level.hpp"

/// @file
/// Every rank gets the fold of all operands.

namespace allfold {
namespace detail {

struct all_reduce_collective : folding_verbs<all_reduce_collective> {
    template <class Algorithm>
    using schedule_in = typename Algorithm::all_reduce;

    static constexpr contract promise{
        .name = "all_reduce",
        .folds = true,
        .input = [](const setting& s, int block) { return content::of(s.rank, block); },
        .result = [](const setting& s, int block) { return content{block, 0, s.size}; },
    };
    static constexpr candidate in_memory[]{
        when<all_read::all_reduce>(everyone_reads_all, "small: one round, everyone folds all operands"),
        when<flat_tree::all_reduce>(one_of_many_folds_for_all,
                                    "small, many ranks, several per core: the fewest messages"),
        when<direct::all_reduce>(always,
                                 "large, shared memory: each rank folds one slice, every byte is read and "
                                 "written once"),
    };
    static constexpr candidate by_messages[]{
        when<recursive_doubling::all_reduce>(few_bytes, "small: the fewest rounds"),
        when<direct::all_reduce>(short_values_of_few_ranks,
                                 "elements narrower than the fold state are sent unconverted"),
        when<circulant::all_reduce>(short_blocks_in_any_order,
                                    "commutative, short blocks: the fewest rounds for the least volume"),
        when<ring::all_reduce>(any_order, "large and commutative: the least volume, with neighbours only"),
        when<recursive_halving::all_reduce>(always, "large: the least volume in rank order"),
    };
    static constexpr candidate in_levels[]{
        when<two_level_halving::all_reduce>(
            many_bytes, "large, threads within processes: two levels, the least volume between processes"),
        when<two_level::all_reduce>(always,
                                    "threads within processes: two levels, the fewest rounds between processes"),
    };

    [[nodiscard]] static shape lay_out(const arguments_given& call) {
        if (!call.in_place) call.require_rows("the output", call.output_rows, call.input_rows);
        return shape::whole(call.input_rows, call.where.size);
    }
};

}  // namespace detail

/// Afterwards every rank holds x0 ∘ x1 ∘ ... ∘ x(P-1), element by element, of the operands of all ranks.
///
///     all_reduce(comm, x, op, options...)          in place
///     all_reduce(comm, in, out, op, options...)    out of place: `in` is never written
///     total = all_reduce(comm, x, op, options...)  of a single object: returns the fold
///
/// - A single object: x holds the fold too, unless it is const or a temporary, in which case it stays unchanged.
/// - Shapes: the same number n of elements on every rank, possibly 0. Input and output are either the same memory or
///   disjoint.
/// - Order: x0 ∘ ... ∘ x(P-1) in rank order unless the operator is commutative and the schedule rotates; all ranks get
///   the same bits. With `order::tree` the bits do not depend on the schedule, the position of an element, the size or
///   the window either.
/// - Cost (for named schedules, see there): small, on shared memory, 1 round, in which each rank reads (P-1)·n
///   elements; large, 2 rounds, in which each rank sends 2·(P-1)/P·n elements and does (P-1)/P·n folds, with every
///   element read and written once; less small, among many ranks with several per core, 2·(P-1) messages and the folds
///   of one rank.
/// - Errors: `mismatch` if ranks differ in collective, n, types, order or schedule; `overlap`; `bad_argument` for null
///   data. They are detected before the first fold with the rank that differs; with the schedules that `choose` picks
///   on shared memory, no rank writes before it has heard from all others. Any error breaks the communicator.
/// - An operator with `lift` or `lower`: each element is lifted first, and the result is lowered with P contributions.
/// - Example: examples/collectives.cpp
inline constexpr detail::all_reduce_collective all_reduce{};

}  // namespace allfold
