// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/collective/detail/verbs.hpp"

/// @file
/// Everyone gets the fold of all operands.

namespace allfold {
namespace detail {

struct all_reduce_verbs : verbs<all_reduce_verbs> {
    static constexpr collective goal = collective::all_reduce;

    template <class Comm, class Arguments>
    [[nodiscard]] static placed place(const Comm& comm, const Arguments& arguments, int) {
        if constexpr (!Arguments::in_place)
            require_rows(goal, comm, "the output", arguments.output_rows(), arguments.input_rows());
        return {.where = whole(arguments.input_rows()), .contributions = comm.size()};
    }
};

}  // namespace detail

/// Afterwards every rank holds x0 ∘ x1 ∘ ... ∘ x(P-1), element by element, of the operands of all ranks.
///
///     all_reduce(comm, x, op, options...)          in place
///     all_reduce(comm, in, out, op, options...)    out of place: `in` is never written
///
/// - Shapes: the same number n of elements on every rank, 0 as well. Input and output are the same memory or disjoint.
/// - Order: x0 ∘ ... ∘ x(P-1) in rank order unless the operator is commutative and the schedule rotates; all ranks get
///   the same bits. `order::tree`: the same bits for every schedule, position, size and window too.
/// - Cost (named schedules: see theirs): small, on shared memory, 1 round and (P-1)·n elements read by each rank;
///   large 2 rounds, 2·(P-1)/P·n elements sent and (P-1)/P·n folds by each rank, every element read and written once;
///   small, with several ranks a processor, 2·(P-1) messages and the folds of one rank.
/// - Errors: `mismatch` when ranks differ in collective, n, types, order or schedule; `overlap`; `bad_argument` for
///   null data. They are found before the first fold with the rank that differs; with the schedules that `choose` picks
///   on shared memory nobody writes before all have been heard. Any error breaks the communicator.
/// - An operator with `lift` or `lower`: each element is lifted before, and the outcome lowered with P contributions.
/// - Example: examples/quick_start.cpp
inline constexpr detail::all_reduce_verbs all_reduce{};

}  // namespace allfold
