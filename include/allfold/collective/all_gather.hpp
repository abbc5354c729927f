// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include "allfold/collective/detail/verbs.hpp"
#include "allfold/schedule/circulant.hpp"
#include "allfold/schedule/direct.hpp"
#include "allfold/schedule/ring.hpp"
#include "allfold/schedule/two_level.hpp"

/// @file
/// Every rank gets the blocks of all ranks.

namespace allfold {
namespace detail {

struct all_gather_collective : moving_verbs<all_gather_collective> {
    template <class Algorithm>
    using schedule_in = typename Algorithm::all_gather;
    static constexpr bool cuts_output = true;

    static constexpr contract promise{
        .name = "all_gather",
        .cut = cut_for::ranks,
        .input = [](const setting& s, int block) { return block == s.rank ? content::of(block, block) : content{}; },
        .result = [](const setting&, int block) { return content::of(block, block); },
    };
    static constexpr candidate in_memory[]{
        when<direct::all_gather>(always, "shared memory: everyone reads every block"),
    };
    static constexpr candidate by_messages[]{
        when<direct::all_gather>(few_bytes_of_few_ranks, "short, few ranks: all messages at once"),
        when<circulant::all_gather>(short_blocks, "short blocks: the fewest rounds for the least volume"),
        // Compared with ring, for blocks from 128 KiB to 1 MiB: 1.2 to 1.5 times faster with Open MPI (P = 4 and 8);
        // with MPICH 1.0 times at 256 KiB and 3 times at 1 MiB (P = 4). No message has to wait for another, and none is
        // copied in transit. Measured on one node with two cores.
        when<direct::all_gather>(few_ranks, "long, few ranks: all messages at once, each directly into place"),
        when<ring::all_gather>(always, "long: the least volume, with neighbours only"),
    };
    static constexpr candidate in_levels[]{
        when<two_level::all_gather>(always,
                                    "threads within processes: two levels, the fewest rounds between processes"),
    };

    [[nodiscard]] static shape lay_out(const arguments_given& call) {
        shape s = shape::whole(call.output_rows, 1);
        s.blocks = call.blocks_of(call.output_rows);
        s.input_first = s.blocks.offset(call.where.rank);
        s.input_rows = s.blocks.extent(call.where.rank);
        if (!call.in_place) call.require_rows("the input", call.input_rows, s.input_rows);
        return s;
    }
};

}  // namespace detail

/// Afterwards every rank holds the blocks of all ranks in rank order.
///
///     all_gather(comm, x, options...)          in place: block r of x is the contribution of rank r
///     all_gather(comm, in, out, options...)    out of place: `in` has the size of block r
///
/// - Shapes: the same number n of elements in `out` on every rank, divided by a `partition` as in `reduce_scatter`.
/// - Axes, lists, shards, displacements: as in `reduce_scatter`. `axis{d}` concatenates the blocks along axis d of
///   `out`, and with `displacements{d0, d1, ...}` block r is written at element d[r].
/// - Cost: on shared memory 1 round, in which each rank sends (P-1)·n/P elements. By messages, the same volume: among
///   up to 16 ranks 1 round, but ceil(log2 P) rounds for medium blocks; among more ranks ceil(log2 P) rounds, or P-1
///   for long blocks.
/// - Errors: as in `reduce_scatter`.
/// - Example: examples/collectives.cpp
inline constexpr detail::all_gather_collective all_gather{};

}  // namespace allfold
