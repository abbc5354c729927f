// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include "allfold/collective/detail/verbs.hpp"
#include "allfold/schedule/binomial.hpp"
#include "allfold/schedule/linear.hpp"
#include "allfold/schedule/two_level.hpp"

/// @file
/// Every rank gets its block of the root's operand.

namespace allfold {
namespace detail {

struct scatter_collective : moving_verbs<scatter_collective> {
    template <class Algorithm>
    using schedule_in = typename Algorithm::scatter;

    static constexpr contract promise{
        .name = "scatter",
        .cut = cut_for::ranks,
        .rooted = true,
        .input = [](const setting& s, int block) { return s.rank == s.root ? content::of(s.root, block) : content{}; },
        .result = [](const setting& s, int block) { return block == s.rank ? content::of(s.root, block) : content{}; },
    };
    static constexpr candidate in_memory[]{
        when<linear::scatter>(always, "shared memory: everyone reads its block in place"),
    };
    static constexpr candidate by_messages[]{
        when<binomial::scatter>(few_bytes, "small: the fewest rounds"),
        when<linear::scatter>(always, "large: no block is sent twice"),
    };
    static constexpr candidate in_levels[]{
        when<two_level::scatter>(always, "threads within processes: two levels, the fewest rounds between processes"),
    };

    [[nodiscard]] static shape lay_out(const arguments_given& call) {
        call.require_root();
        const bool is_root = call.where.rank == call.where.root;
        shape s;
        s.rows = rows_of_all(call, is_root);
        s.blocks = call.blocks_of(s.rows);
        s.input_rows = is_root ? s.rows : 0;
        s.contributes = is_root;
        s.writes = !(call.in_place && is_root);
        s.result_first = s.blocks.offset(call.where.rank);
        s.result_rows = s.blocks.extent(call.where.rank);
        if (is_root) call.require_rows("the input", call.input_rows, s.rows);
        if (!call.in_place || !is_root) call.require_rows("the output", call.output_rows, s.result_rows);
        return s;
    }

  private:
    /// Unless a partition is given, all ranks get the same number.
    [[nodiscard]] static std::size_t rows_of_all(const arguments_given& call, bool is_root) {
        if (call.options->blocks != nullptr) return call.options->blocks->total();
        const auto size = static_cast<std::size_t>(call.where.size);
        const std::size_t rows = is_root ? call.input_rows : call.output_rows * size;
        if (rows % size != 0)
            call.reject(errc::bad_partition, {rows, " elements of the input cannot be divided equally among ", size,
                                              " ranks: pass a partition on every rank"});
        return rows;
    }
};

}  // namespace detail

/// Afterwards rank r holds block r of the root's operand.
///
///     scatter(comm, x, options...)          in place: at the root x is the whole operand, which is not written;
///                                           elsewhere x is the block
///     scatter(comm, in, out, options...)    out of place: `in` is used at the root only
///
/// - Shapes: all ranks get the same number of elements, or as many as a `partition` of the whole specifies, which must
///   be the same on every rank; possibly 0. `in` has as many elements as all blocks together.
/// - Cost: on shared memory, and for large blocks, 1 round in which the root sends (P-1)/P of the whole; small blocks
///   sent by messages take ceil(log2 P) rounds (`binomial{}`), and a block may be sent that many times.
/// - Errors: `bad_rank` for a root outside [0, P); `bad_partition` for a partition that does not have P blocks, and, if
///   none is given, for an input that cannot be divided into P blocks of equal length; `mismatch` for sizes that do not
///   fit the partition, and if ranks differ in root, partition or types.
/// - Source: see `binomial` and `linear`.
/// - Example: examples/collectives.cpp
inline constexpr detail::scatter_collective scatter{};

}  // namespace allfold
