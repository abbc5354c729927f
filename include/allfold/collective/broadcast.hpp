// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/collective/detail/verbs.hpp"

/// @file
/// Everyone gets the operand of the root.

namespace allfold {
namespace detail {

struct broadcast_verbs : verbs<broadcast_verbs> {
    static constexpr collective goal = collective::broadcast;

    template <class Comm, class Arguments>
    [[nodiscard]] static placed place(const Comm& comm, const Arguments& arguments, int root) {
        require_root(goal, comm, root);
        const bool is_root = comm.rank() == root;
        if constexpr (!Arguments::in_place)
            if (is_root) require_rows(goal, comm, "the input", arguments.input_rows(), arguments.output_rows());
        return {.where = whole(arguments.output_rows()), .contributes = is_root};
    }
};

}  // namespace detail

/// Afterwards every rank holds the operand of the root.
///
///     broadcast(comm, x, options...)          x is read at the root and written elsewhere
///     broadcast(comm, in, out, options...)    `in` matters at the root only
///
/// - Shapes: the same number n of elements on every rank.
/// - Cost: on shared memory 1 round, the root sends (P-1)·n elements. `binomial{}`: ceil(log2 P) rounds.
/// - Errors: `bad_rank` for a root outside [0, P); `mismatch` for different roots, sizes or types.
inline constexpr detail::broadcast_verbs broadcast{};

}  // namespace allfold
