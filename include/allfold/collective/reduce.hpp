// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/collective/detail/verbs.hpp"

/// @file
/// The root gets the fold of all operands.

namespace allfold {
namespace detail {

struct reduce_verbs : verbs<reduce_verbs> {
    static constexpr collective goal = collective::reduce;

    template <class Comm, class Arguments>
    [[nodiscard]] static placed place(const Comm& comm, const Arguments& arguments, int root) {
        require_root(goal, comm, root);
        const bool is_root = comm.rank() == root;
        const std::size_t rows = arguments.input_rows();
        if constexpr (!Arguments::in_place)
            if (is_root) require_rows(goal, comm, "the output", arguments.output_rows(), rows);
        return {.where = {rows, 0, rows, 0, is_root ? rows : 0},
                .contributions = comm.size(),
                .receives = is_root || Arguments::in_place};
    }
};

}  // namespace detail

/// Afterwards the root holds x0 ∘ x1 ∘ ... ∘ x(P-1), element by element. Other ranks get nothing.
///
///     reduce(comm, x, op, options...)          in place; x stays as it is except at the root
///     reduce(comm, in, out, op, options...)    out of place: `out` matters at the root only
///
/// - Shapes: the same number n of elements on every rank, 0 as well.
/// - Order: as in `all_reduce`, and the same bits as it: rank order for every root.
/// - Cost: small, on shared memory, 1 round in which the root reads (P-1)·n elements; large 2 rounds, in which each
///   rank sends and folds (P-1)/P·n elements. `binomial{}`: ceil(log2 P) rounds of n elements.
/// - Errors: as in `all_reduce`; `bad_rank` for a root outside [0, P), `mismatch` for different roots.
inline constexpr detail::reduce_verbs reduce{};

}  // namespace allfold
