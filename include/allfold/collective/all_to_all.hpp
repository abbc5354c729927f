// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "allfold/collective/detail/by_sizes.hpp"
#include "allfold/collective/detail/verbs.hpp"
#include "allfold/schedule/bruck.hpp"
#include "allfold/schedule/direct.hpp"
#include "allfold/schedule/pairwise.hpp"
#include "allfold/schedule/two_level.hpp"

/// @file
/// Every rank gets one block from each rank.

namespace allfold {
namespace detail {

template <class X>
concept sizes_of_blocks = std::integral<range_element<std::remove_reference_t<X>>>;

struct all_to_all_collective : moving_verbs<all_to_all_collective> {
    template <class Algorithm>
    using schedule_in = typename Algorithm::all_to_all;
    static constexpr bool cuts_input = true, cuts_output = true;

    using moving_verbs::operator();
    using moving_verbs::prepare;
    using moving_verbs::start;
    /// For ranks that know only what they send: the lengths are exchanged first.
    template <communicator Comm, class In, class Sizes, output Out, any_option... Options>
        requires(sizes_of_blocks<Sizes> && !any_option<Out>)
    partition operator()(Comm& comm, In&& in, Sizes&& sizes, Out&& out, Options&&... options) const {
        partition layout = partition::even(0, comm.size());
        (*this)(comm, std::forward<In>(in), sizes, std::forward<Out>(out), layout, options...);
        return layout;
    }
    template <communicator Comm, class In, class Sizes, output Out, any_option... Options>
        requires(sizes_of_blocks<Sizes> && !any_option<Out>)
    void operator()(Comm& comm, In&& in, Sizes&& sizes, Out&& out, partition& layout, Options&&... options) const {
        if constexpr (require_lasting<std::is_lvalue_reference_v<In> || refers<std::remove_cvref_t<In>>, Options...>())
            by_sizes<verb::call, In, Sizes, Out>(comm, in, sizes, out, layout, options...);
    }
    template <communicator Comm, class In, class Sizes, output Out, any_option... Options>
        requires(sizes_of_blocks<Sizes> && !any_option<Out>)
    [[nodiscard]] operation start(Comm& comm, In&& in, Sizes&& sizes, Out&& out, partition& layout,
                                  Options&&... options) const {
        return by_sizes<verb::start, In, Sizes, Out>(comm, in, sizes, out, layout, options...);
    }
    template <communicator Comm, class In, class Sizes, output Out, any_option... Options>
        requires(sizes_of_blocks<Sizes> && !any_option<Out>)
    [[nodiscard]] persistent prepare(Comm& comm, In&& in, Sizes&& sizes, Out&& out, partition& layout,
                                     Options&&... options) const {
        return by_sizes<verb::prepare, In, Sizes, Out>(comm, in, sizes, out, layout, options...);
    }

    // Calls that lack a partition for what is received.
    template <communicator Comm, class In, class Sizes, output Out, any_option... Options>
        requires(sizes_of_blocks<Sizes> && !any_option<Out>)
    operation start(Comm&, In&&, Sizes&&, Out&&, Options&&...) const {
        explain_partition<Out>();
        return {};
    }
    template <communicator Comm, class In, class Sizes, output Out, any_option... Options>
        requires(sizes_of_blocks<Sizes> && !any_option<Out>)
    persistent prepare(Comm&, In&&, Sizes&&, Out&&, Options&&...) const {
        explain_partition<Out>();
        return {};
    }

    static constexpr contract promise{
        .name = "all_to_all",
        .cut = cut_for::pairs,
        .input = [](const setting& s, int block) { return content::of(s.rank, block); },
        .result = [](const setting& s, int block) { return content::of(block, s.rank); },
    };
    static constexpr candidate in_memory[]{
        when<direct::all_to_all>(always, "shared memory: everyone reads its blocks in place"),
    };
    static constexpr candidate by_messages[]{
        when<direct::all_to_all>(short_blocks_for_one_round, "short, few ranks: all messages at once"),
        when<bruck::all_to_all>(short_blocks_for_each, "short: the fewest messages"),
        when<direct::all_to_all>(blocks_for_all_at_once, "medium: all messages at once"),
        when<pairwise::all_to_all>(always, "large: one partner at a time"),
    };
    static constexpr candidate in_levels[]{
        when<two_level::all_to_all>(always,
                                    "threads within processes: two levels, one message for each pair of processes"),
    };

    [[nodiscard]] static shape lay_out(const arguments_given& call) {
        const call_options& options = *call.options;
        if (call.in_place && options.input_blocks != nullptr && options.output_blocks != nullptr &&
            !(*options.input_blocks == *options.output_blocks))
            call.reject(errc::bad_partition, {"in place, input_blocks{} and output_blocks{} must be equal"});
        shape s;
        const partition *const in = options.input_blocks, *const out = options.output_blocks;
        s.blocks = blocks_of(call, in != nullptr || !call.in_place ? in : out, call.input_rows, "input");
        s.result_blocks = call.in_place ? s.blocks : blocks_of(call, out, call.output_rows, "output");
        s.own_lengths = in != nullptr || out != nullptr || options.blocks != nullptr;
        s.rows = s.input_rows = s.blocks.total();
        s.result_rows = s.result_blocks.total();
        if (!s.own_lengths) call.require_rows("the output", s.result_rows, s.rows);
        const std::size_t own = s.blocks.extent(call.where.rank), place = s.result_blocks.extent(call.where.rank);
        if (own != place && !options.has_placeholders)
            call.reject(errc::mismatch, {"the block of this rank for itself has ", own, " elements in the input, but ",
                                         place, " in the output"});
        return s;
    }

  private:
    template <verb V, class In, class Sizes, class Out, class Comm, class... Options>
    static outcome_of<V> by_sizes(Comm& comm, std::remove_reference_t<In>& in, std::remove_reference_t<Sizes>& sizes,
                                  std::remove_reference_t<Out>& out, partition& layout, const Options&... options) {
        if constexpr (require_options_by_sizes<V, all_to_all_collective, Options...>()) {
            using call = exchange_by_sizes<V, all_to_all_collective, Comm, In, Sizes, Out, Options...>;
            return issue_in_stages<V, call>(comm, promise.name, in, sizes, out, layout, options...);
        } else if constexpr (V != verb::call) {
            return {};
        }
    }

    template <class X>
    static consteval void explain_partition() {
        constexpr bool has_partition = sizeof(X) == 0;
        static_assert(
            has_partition,
            "allfold: start and prepare return an operation, not the partition of the output: pass a variable for that "
            "after the output");
    }

    /// Unless partitions are given, all blocks have the same length.
    [[nodiscard]] static partition blocks_of(const arguments_given& call, const partition* given, std::size_t rows,
                                             const char* whose) {
        const partition* const blocks = given != nullptr ? given : call.options->blocks;
        if (blocks == nullptr) {
            if (rows % static_cast<std::size_t>(call.where.size) != 0)
                call.reject(errc::bad_partition,
                            {"the ", whose, " has ", rows, " elements, which cannot be divided into ", call.where.size,
                             " blocks of equal length: pass input_blocks{} and output_blocks{}"});
            return partition::even(rows, call.where.size);
        }
        call.require_blocks(*blocks, text({" of the ", whose}).c_str());
        if (blocks->total() != rows)
            call.reject(errc::bad_partition, {"the partition of the ", whose, " adds up to ", blocks->total(),
                                              " elements, but there are ", rows});
        return *blocks;
    }
};

}  // namespace detail

/// Afterwards block s of rank r's output is what was block r of rank s's input: the transpose over ranks.
///
///     all_to_all(comm, x, options...)          in place
///     all_to_all(comm, in, out, options...)    out of place: `in` is never written
///     partition layout = all_to_all(comm, in, sizes, out, options...)
///     all_to_all(comm, in, sizes, out, layout, options...)
///
/// The last two forms are for ranks that know only what they send, as when tokens are dispatched to experts: `sizes`
/// gives the number of elements for each rank. The sizes are exchanged first. Then `out` is resized to what arrives, or
/// must have room for it (records, and views of several axes, exactly so much), and `layout` is the partition that
/// describes its layout there. No option may say where blocks are. `start` and `prepare` take `layout` too, a variable
/// that outlives the operation, such as `partition layout = partition::even(0, comm.size())`; until the operation is
/// done, neither it nor `out`, which may be resized, may be touched. `start` has read `sizes` when it returns; a
/// prepared operation reads it at each start, and takes `in` and `out` with the lengths they have then.
///
/// - Shapes: P blocks of equal length, or of the lengths given by `input_blocks{partition}` and
///   `output_blocks{partition}`, which may differ between ranks: what rank s sends to r must be as long as r expects
///   from s, and may be empty. In place the two partitions are the same.
/// - Axes: `split_axis{a}` cuts a tensor along axis a, and rank r gets block r; `concat_axis{b}` concatenates the
///   blocks of all ranks along axis b of the output. Partitions then count along these axes. Blocks may consist of any
///   number of pieces; pieces of at least 1 KiB are not copied to pack them.
/// - Displacements: `input_displacements{{i0, i1, ...}}` and `output_displacements{{o0, o1, ...}}` give the element at
///   which each block begins, along with partitions that give the lengths; what is between the blocks is left alone. In
///   place those of the input suffice.
/// - Cost: on shared memory 1 round, in which each rank sends (P-1)/P of the operand. By messages, short blocks of
///   equal length take ceil(log2 P) rounds (`bruck{}`), others 1 round of P-1 messages (`direct{}`), and long ones P-1
///   rounds (`pairwise{}`). A `window{}` has no effect on blocks of different lengths. By sizes: one more all_to_all,
///   of 64 bytes per rank; a blocking call without other options than a `deadline{}` takes nothing more than that if
///   all blocks of all ranks have at most 48 bytes. A `deadline{}` applies to each of the two separately.
/// - Errors: `bad_partition` for elements that cannot be divided into P blocks of equal length, for partitions that do
///   not have P blocks or have another total, and for `bruck{}` with blocks of different lengths; `mismatch`, with both
///   ranks and lengths, if input and output both have blocks of equal length but not the same one, or if a block is not
///   as long as its receiver expects, which is detected before that block is touched. By sizes: `bad_partition` if
///   there are not P of them, or their total is not that of the input, detected before anything is sent; `mismatch` if
///   there is no room for what arrives. Operations in flight accept no algorithm that needs blocks of equal length, and
///   no option that says where blocks are or when data may move.
/// - Source: see `bruck`, `pairwise` and `direct`.
/// - Example: examples/collectives.cpp
inline constexpr detail::all_to_all_collective all_to_all{};

}  // namespace allfold
