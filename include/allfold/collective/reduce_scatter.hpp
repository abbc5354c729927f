// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include "allfold/collective/detail/verbs.hpp"
#include "allfold/schedule/circulant.hpp"
#include "allfold/schedule/direct.hpp"
#include "allfold/schedule/recursive_halving.hpp"
#include "allfold/schedule/ring.hpp"
#include "allfold/schedule/two_level.hpp"

/// @file
/// Every rank gets its block of the fold of all operands.

namespace allfold {
namespace detail {

struct reduce_scatter_collective : folding_verbs<reduce_scatter_collective> {
    template <class Algorithm>
    using schedule_in = typename Algorithm::reduce_scatter;
    static constexpr bool cuts_input = true;

    static constexpr contract promise{
        .name = "reduce_scatter",
        .cut = cut_for::ranks,
        .folds = true,
        .input = [](const setting& s, int block) { return content::of(s.rank, block); },
        .result = [](const setting& s, int block) { return block == s.rank ? content{block, 0, s.size} : content{}; },
    };
    static constexpr candidate in_memory[]{
        when<direct::reduce_scatter>(always, "shared memory: each rank reads its block of every operand"),
    };
    static constexpr candidate by_messages[]{
        when<direct::reduce_scatter>(few_bytes_of_few_ranks, "short, few ranks: all messages at once"),
        when<direct::reduce_scatter>(short_values_of_few_ranks,
                                     "elements narrower than the fold state are sent unconverted"),
        when<circulant::reduce_scatter>(short_blocks_in_any_order,
                                        "commutative, short blocks: the fewest rounds for the least volume"),
        when<ring::reduce_scatter>(any_order, "commutative, long: the least volume, with neighbours only"),
        when<recursive_halving::reduce_scatter>(always, "the least volume in rank order"),
    };
    static constexpr candidate in_levels[]{
        when<two_level::reduce_scatter>(always,
                                        "threads within processes: two levels, the fewest rounds between processes"),
    };

    static constexpr bool leaves_one_block = true;
    [[nodiscard]] static shape lay_out(const arguments_given& call) {
        shape s = shape::whole(call.input_rows, call.where.size);
        s.blocks = call.blocks_of(call.input_rows);
        s.result_first = s.blocks.offset(call.where.rank);
        s.result_rows = s.blocks.extent(call.where.rank);
        if (!call.in_place) call.require_rows("the output", call.output_rows, s.result_rows);
        return s;
    }
};

}  // namespace detail

/// Afterwards rank r holds block r of x0 ∘ x1 ∘ ... ∘ x(P-1).
///
///     reduce_scatter(comm, x, op, options...)          in place: the result is block r of x, the rest is undefined
///     reduce_scatter(comm, in, out, op, options...)    out of place: `out` has the size of block r
///
/// - Shapes: the same number n of elements on every rank, divided by a `partition` that is the same on every rank (even
///   unless given: `partition::ceil`, `partition::sizes`). Blocks may be empty.
/// - Axes, lists, shards: `axis{d}` cuts a tensor along axis d, and the partition counts along it; of `tensors{a, b}`
///   each tensor is cut, and `out` is either a list as well or one operand; with `shards{list}` rank r gets block
///   list[r].
/// - Padded shards, all as long as the longest block: pass `blocks.unpadded(shard, comm.rank())` of a partition; the
///   padding is left untouched.
/// - Displacements: with `displacements{d0, d1, ...}` and a partition, block r begins at element d[r], which may differ
///   between ranks.
/// - `at_front{}`, in place: the block ends up at the front of x instead of at its own position, which is undefined.
/// - Order: as in `all_reduce`; at order level `tree` the bits are those of `all_reduce` as well.
/// - Cost: on shared memory 1 round, in which each rank sends and folds (P-1)/P·n elements. By messages, the same
///   volume and work: short operands take 1 round among up to 16 ranks; if the operator is commutative, medium ones
///   take ceil(log2 P) rounds and long ones P-1; for rank order see `recursive_halving`.
/// - Errors: as in `all_reduce`; `bad_partition` if the blocks do not add up to n or are not P in number.
/// - Example: examples/collectives.cpp
inline constexpr detail::reduce_scatter_collective reduce_scatter{};

}  // namespace allfold
