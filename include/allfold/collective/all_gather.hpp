// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/collective/detail/verbs.hpp"

/// @file
/// Everyone gets the blocks of all ranks.

namespace allfold {
namespace detail {

struct all_gather_verbs : verbs<all_gather_verbs> {
    static constexpr collective goal = collective::all_gather;

    /// Number of rows of the whole operand, which is cut into blocks.
    template <class Arguments>
    [[nodiscard]] static std::size_t rows_to_cut(const Arguments& arguments) {
        return arguments.output_rows();
    }
    template <class Comm, class Arguments>
    [[nodiscard]] static placed place(const Comm& comm, const Arguments& arguments, const partition& blocks) {
        const std::size_t rows = blocks.total(), mine = blocks.extent(comm.rank());
        if constexpr (!Arguments::in_place) require_rows(goal, comm, "the input", arguments.input_rows(), mine);
        return {.where = {rows, blocks.offset(comm.rank()), mine, 0, rows}};
    }
};

}  // namespace detail

/// Afterwards every rank holds the blocks of all ranks, one behind the other in rank order.
///
///     all_gather(comm, x, options...)          in place: block r of x is the contribution of rank r
///     all_gather(comm, in, out, options...)    out of place: `in` has the size of block r
///
/// - Shapes: the same number n of elements in `out` on every rank, cut by a `partition` as in `reduce_scatter`.
/// - Cost: on shared memory 1 round, (P-1)·n/P elements sent by each rank. `ring{}`: P-1 rounds, the same volume.
/// - Errors: as in `reduce_scatter`.
inline constexpr detail::all_gather_verbs all_gather{};

}  // namespace allfold
