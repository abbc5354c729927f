// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/collective/detail/verbs.hpp"

/// @file
/// Every rank gets the fold of the operands below its own.

namespace allfold {
namespace detail {

struct exclusive_scan_verbs : verbs<exclusive_scan_verbs> {
    static constexpr collective goal = collective::exclusive_scan;

    template <class Comm, class Arguments>
    [[nodiscard]] static placed place(const Comm& comm, const Arguments& arguments, int) {
        if constexpr (!Arguments::in_place)
            require_rows(goal, comm, "the output", arguments.output_rows(), arguments.input_rows());
        return {.where = whole(arguments.input_rows()), .contributions = comm.rank()};
    }
};

}  // namespace detail

/// Afterwards rank r > 0 holds x0 ∘ x1 ∘ ... ∘ x(r-1), element by element. Rank 0 holds the identity of the operator;
/// if it has none, rank 0's result stays as it was.
///
///     exclusive_scan(comm, x, op, options...)          in place
///     exclusive_scan(comm, in, out, op, options...)    out of place
///
/// - Shapes, order, errors: as in `inclusive_scan`.
/// - Cost: small, on shared memory, 1 round; otherwise ceil(log2 P) rounds of n elements, for every P.
inline constexpr detail::exclusive_scan_verbs exclusive_scan{};

}  // namespace allfold
