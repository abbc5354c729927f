// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/collective/detail/verbs.hpp"

/// @file
/// Every rank gets the fold of the operands up to its own.

namespace allfold {
namespace detail {

struct inclusive_scan_verbs : verbs<inclusive_scan_verbs> {
    static constexpr collective goal = collective::inclusive_scan;

    template <class Comm, class Arguments>
    [[nodiscard]] static placed place(const Comm& comm, const Arguments& arguments, int) {
        if constexpr (!Arguments::in_place)
            require_rows(goal, comm, "the output", arguments.output_rows(), arguments.input_rows());
        return {.where = whole(arguments.input_rows()), .contributions = comm.rank() + 1};
    }
};

}  // namespace detail

/// Afterwards rank r holds x0 ∘ x1 ∘ ... ∘ xr, element by element.
///
///     inclusive_scan(comm, x, op, options...)          in place
///     inclusive_scan(comm, in, out, op, options...)    out of place
///
/// - Shapes: the same number n of elements on every rank, 0 as well.
/// - Order: rank order always.
/// - Cost: small, on shared memory, 1 round; otherwise ceil(log2 P) rounds of n elements and n folds each.
/// - Errors: as in `all_reduce`.
inline constexpr detail::inclusive_scan_verbs inclusive_scan{};

}  // namespace allfold
