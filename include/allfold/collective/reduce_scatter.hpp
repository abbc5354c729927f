// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/collective/detail/verbs.hpp"

/// @file
/// Every rank gets its block of the fold of all operands.

namespace allfold {
namespace detail {

struct reduce_scatter_verbs : verbs<reduce_scatter_verbs> {
    static constexpr collective goal = collective::reduce_scatter;

    /// Number of rows of the whole operand, which is cut into blocks.
    template <class Arguments>
    [[nodiscard]] static std::size_t rows_to_cut(const Arguments& arguments) {
        return arguments.input_rows();
    }
    template <class Comm, class Arguments>
    [[nodiscard]] static placed place(const Comm& comm, const Arguments& arguments, const partition& blocks) {
        const std::size_t rows = blocks.total(), mine = blocks.extent(comm.rank());
        if constexpr (!Arguments::in_place) require_rows(goal, comm, "the output", arguments.output_rows(), mine);
        return {.where = {rows, 0, rows, blocks.offset(comm.rank()), mine}, .contributions = comm.size()};
    }
};

}  // namespace detail

/// Afterwards rank r holds block r of x0 ∘ x1 ∘ ... ∘ x(P-1).
///
///     reduce_scatter(comm, x, op, options...)          in place: the result is block r of x, the rest is undefined
///     reduce_scatter(comm, in, out, op, options...)    out of place: `out` has the size of block r
///
/// - Shapes: the same number n of elements on every rank, cut by a `partition` (even unless given: `partition::ceil`,
///   `partition::sizes`), the same one on every rank. Blocks may be empty.
/// - Order: as in `all_reduce`, and the same bits as it for the same order level `tree`.
/// - Cost: on shared memory 1 round, (P-1)/P·n elements sent and folded by each rank.
/// - Errors: as in `all_reduce`; `bad_partition` when the blocks do not add up to n or are not P.
inline constexpr detail::reduce_scatter_verbs reduce_scatter{};

}  // namespace allfold
