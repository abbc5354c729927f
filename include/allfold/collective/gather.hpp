// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include "allfold/collective/detail/verbs.hpp"
#include "allfold/schedule/binomial.hpp"
#include "allfold/schedule/linear.hpp"
#include "allfold/schedule/two_level.hpp"

/// @file
/// The root gets the blocks of all ranks.

namespace allfold {
namespace detail {

struct gather_collective : moving_verbs<gather_collective> {
    template <class Algorithm>
    using schedule_in = typename Algorithm::gather;

    static constexpr contract promise{
        .name = "gather",
        .cut = cut_for::ranks,
        .rooted = true,
        .input = [](const setting& s, int block) { return block == s.rank ? content::of(block, block) : content{}; },
        .result = [](const setting& s, int block) { return s.rank == s.root ? content::of(block, block) : content{}; },
    };
    /// Between two ranks, a block too long to be copied is moved in one pass, in which each rank stores its own block:
    /// see `hands_out_in_one_pass`.
    static constexpr candidate in_memory[]{
        when<linear::gather>(always, "shared memory: the root reads every block in place"),
    };
    static constexpr candidate by_messages[]{
        when<binomial::gather>(few_bytes, "small: the fewest rounds"),
        when<linear::gather>(always, "large: no block is sent twice"),
    };
    static constexpr candidate in_levels[]{
        when<two_level::gather>(always, "threads within processes: two levels, the fewest rounds between processes"),
    };

    [[nodiscard]] static shape lay_out(const arguments_given& call) {
        call.require_root();
        const bool is_root = call.where.rank == call.where.root;
        shape s;
        s.rows = rows_of_all(call, is_root);
        s.blocks = call.blocks_of(s.rows);
        s.input_first = s.blocks.offset(call.where.rank);
        s.input_rows = s.blocks.extent(call.where.rank);
        s.result_rows = is_root ? s.rows : 0;
        s.receives = is_root;
        if (!call.in_place || !is_root) call.require_rows("the input", call.input_rows, s.input_rows);
        if (is_root) call.require_rows("the output", call.output_rows, s.rows);
        return s;
    }

  private:
    /// Unless a partition is given, all ranks have the same number.
    [[nodiscard]] static std::size_t rows_of_all(const arguments_given& call, bool is_root) {
        if (call.options->blocks != nullptr) return call.options->blocks->total();
        const auto size = static_cast<std::size_t>(call.where.size);
        const std::size_t rows = is_root ? call.output_rows : call.input_rows * size;
        if (rows % size != 0)
            call.reject(errc::bad_partition, {rows, " elements of the output cannot be made up of equal blocks from ",
                                              size, " ranks: pass a partition on every rank"});
        return rows;
    }
};

}  // namespace detail

/// Afterwards the root holds the blocks of all ranks in rank order. Other ranks get nothing.
///
///     gather(comm, x, options...)          in place: at the root x is the whole, with the root's own block already in
///                                          position; elsewhere x is the block that is sent, and stays unchanged
///     gather(comm, in, out, options...)    out of place: `out` is used at the root only
///
/// - Shapes: all ranks contribute the same number of elements, or as many as a `partition` of the whole specifies,
///   which must be the same on every rank; possibly 0. `out` has as many elements as all blocks together.
/// - Cost: on shared memory, and for large blocks, 1 round in which the root receives (P-1)/P of the whole; small
///   blocks sent by messages take ceil(log2 P) rounds (`binomial{}`), and a block may be sent that many times.
/// - Errors: `bad_rank` for a root outside [0, P); `bad_partition` for a partition that does not have P blocks;
///   `mismatch` for sizes that do not fit the partition, and if ranks differ in root, partition or types.
/// - Source: see `binomial` and `linear`.
/// - Example: examples/collectives.cpp
inline constexpr detail::gather_collective gather{};

}  // namespace allfold
