// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include "allfold/collective/detail/verbs.hpp"
#include "allfold/schedule/direct.hpp"

/// @file
/// Every rank gets the operand of another rank.

namespace allfold {
namespace detail {

struct permute_collective : moving_verbs<permute_collective> {
    template <class Algorithm>
    using schedule_in = typename Algorithm::permute;

    static constexpr contract promise{
        .name = "permute",
        .cut = cut_for::owner,
        .rooted = true,
        .input = [](const setting& s, int block) { return content::of(s.rank, block); },
        .result = [](const setting& s, int block) { return content::of(s.origin_of(s.rank), block); },
    };
    static constexpr candidate in_memory[]{
        when<direct::permute>(always, "shared memory: everyone reads the operand it receives"),
    };
    static constexpr candidate by_messages[]{
        when<direct::permute>(always, "one message for each rank"),
    };
    static constexpr candidate in_levels[]{
        when<direct::permute>(always, "threads within processes: one message for each rank, from thread to thread"),
    };

    [[nodiscard]] static shape lay_out(const arguments_given& call) {
        if (!call.options->shift && call.options->destinations == nullptr)
            call.reject(errc::bad_argument, {"no permutation given: pass shift{} or destinations{}"});
        call.require_permutation();
        shape s;
        if (call.options->destinations != nullptr) s.destinations = call.options->destinations->ranks();
        s.own_lengths = true;
        s.rows = s.input_rows = call.input_rows;
        s.result_rows = call.output_rows;
        s.blocks = partition::even(s.input_rows, 1);
        s.result_blocks = partition::even(s.result_rows, 1);
        if (call.where.destination_of(call.where.rank) == call.where.rank)
            call.require_rows("the output", s.result_rows, s.input_rows);
        return s;
    }
};

}  // namespace detail

/// Afterwards each rank holds the operand of another one: with `shift{k}`, rank (r + k) mod P holds that of rank r;
/// with `destinations{list}`, rank list[r] does.
///
///     permute(comm, x, shift{1})                          in place: around the ring
///     permute(comm, in, out, destinations{2, 0, 1})       out of place: `in` is never written
///     value = permute(comm, x, shift{-1})                 of a single object, as in `all_reduce`
///
/// - Shapes: lengths may differ between ranks, and may be 0; `out` is as long as what arrives. In place, ranks that get
///   each other's operands have the same number of elements.
/// - The permutation is the same on all ranks, but may be expressed differently: `shift{1}` of three ranks is
///   `destinations{1, 2, 0}`. A rank may keep its own operand.
/// - Cost: 1 round, in which each rank that does not keep its operand sends just one message. In place, long operands
///   on shared memory are copied once more in transit. A `window{}` has no effect. In a hierarchy messages are relayed
///   from thread to thread; `two_level{}` sends them through the first threads of processes instead, takes P + 2
///   rounds, and needs operands of equal length.
/// - Errors: `bad_rank` for a list that is not a permutation, `bad_argument` for a list whose length is not P, or for
///   no list and no shift; `mismatch`, with both ranks and values, if the permutations of ranks differ, or operands are
///   not as long as their receivers expect. Nothing is written except what a rank in agreement has sent.
/// - Source: gasnet's collectives, and `ppermute` of JAX.
/// - Example: examples/permute.cpp
inline constexpr detail::permute_collective permute{};

}  // namespace allfold
