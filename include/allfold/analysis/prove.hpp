// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "allfold/analysis/claim.hpp"
#include "allfold/analysis/detail/constexpr_array.hpp"
#include "allfold/analysis/detail/prover.hpp"
#include "allfold/analysis/detail/rank_bits.hpp"
#include "allfold/analysis/detail/schedules.hpp"
#include "allfold/analysis/proof.hpp"
#include "allfold/error.hpp"
#include "allfold/schedule/contract.hpp"
#include "allfold/schedule/step.hpp"

/// @file
/// Proves that a schedule does what it claims, for a given number of ranks, by running all ranks on values that name
/// the ranks whose operands they are made of, and the block. The same code runs at compile time and at run time.
///
///     static_assert(allfold::proved(allfold::all_reduce, allfold::ring{}, 8));
///     std::cout << allfold::explain(allfold::prove(allfold::all_reduce, my_algorithm{}, 12));
///
/// What is proved, for this P:
/// 1. Every message meets a receive of its partner, and every receive a message, with the same number of blocks.
/// 2. Nothing deadlocks when no message is buffered, so that a send is done only when it has been received, by an
///    ordered fold only with all that this folds, and each step takes its messages in the order of its peers.
/// 3. Every block ends up where the collective's contract says, made of that block of each operand exactly once: in
///    rank order if the schedule keeps `order::rank`, and bracketed as the canonical tree if it keeps `order::tree`.
/// 4. Ranks that get the same fold get the same bits: they all hold the same bracketing, for `order::any` too.
/// 5. No step reads an empty slot or an identity, receives into what it sends, stores a block where one of another
///    length may be, or writes what is not its own.
/// 6. The claims `scratch_slots`, `in_place`, `grouped` and `folds_once` hold, and no step asks for what cannot be run.
/// 7. If ranks that share memory run two steps as one pass (see `fused_pass_of`), all of them do, and 3 to 6 hold for
///    it too.

namespace allfold {

namespace detail {

/// Checks what ranks must agree on before anything runs.
[[nodiscard]] constexpr proof check_shape(int size, const schedules& all, const claim& claimed) {
    const cut_for cut = claimed.promise->cut;
    const int blocks = cut == cut_for::nobody     ? 0
                       : cut == cut_for::owner    ? 1
                       : cut == cut_for::schedule ? all.blocks(0)
                                                  : size;
    const int least = cut == cut_for::schedule ? 1 : blocks, wanted = blocks < least ? least : blocks;
    const int in_scratch = all.scratch(0).count(wanted);
    for (int r = 0; r < size; ++r) {
        const scratch_blocks scratch = all.scratch(r);
        if (all.blocks(r) != wanted)
            return {.what = fault::blocks_differ, .rank = r, .found = all.blocks(r), .wanted = wanted};
        if (scratch.count(wanted) != in_scratch)
            return {.what = fault::blocks_differ, .rank = r, .found = scratch.count(wanted), .wanted = in_scratch};
        if (scratch.only >= wanted)
            return {.what = fault::no_such_block, .rank = r, .block = scratch.only, .wanted = wanted};
    }
    return check_rounds(size, all);
}

/// The ways in which steps are run. If one constant expression would take too long, each way can be proved by itself.
enum class way : std::uint8_t { step_by_step, in_one_pass, both };

/// Runs the schedules: all their steps, or the passes in which they are fused.
template <class Value>
[[nodiscard]] constexpr proof run(int size, const schedules& all, const claim& claimed,
                                  const constexpr_array<fused_pass>& passes) {
    prover<Value> reads(size, all, claimed);
    interpreter<prover<Value>> steps(size, all, reads);
    if (passes.empty())
        steps.run();
    else
        steps.run_fused(passes);
    if (reads.ok) reads.check_end();
    proof outcome = reads.verdict;
    outcome.blocks = all.blocks(0);
    outcome.rounds = all.rounds(0);
    outcome.scratch_slots = reads.used_scratch_slots();
    outcome.in_one_pass = !passes.empty() && !reads.ok;
    reads.add_to(outcome);
    return outcome;
}

template <class Value>
[[nodiscard]] constexpr proof run_in_one_pass(int size, const schedules& all, const claim& claimed) {
    const bool are_fused = all.fused(0).has_value();
    for (int r = 1; r < size; ++r)
        if (all.fused(r).has_value() != are_fused)
            return {.what = fault::fusion_differs, .rank = r, .peer = r - 1, .found = are_fused ? 0 : 1};
    if (!are_fused) return {};
    const auto pass_of = [&all](std::size_t rank) { return *all.fused(static_cast<int>(rank)); };
    return run<Value>(size, all, claimed, constexpr_array<fused_pass>(static_cast<std::size_t>(size), pass_of));
}

template <class Value>
[[nodiscard]] constexpr proof run(int size, const schedules& all, const claim& claimed, way how) {
    if (how == way::in_one_pass) return run_in_one_pass<Value>(size, all, claimed);
    const proof steps = run<Value>(size, all, claimed, constexpr_array<fused_pass>());
    if (!steps.ok() || how == way::step_by_step) return steps;
    const proof pass = run_in_one_pass<Value>(size, all, claimed);
    return pass.ok() ? steps : pass;
}

/// Runs with the cheapest values that suffice: if nothing is folded, or every fold is in the canonical tree, all ranks
/// agree.
[[nodiscard]] constexpr proof run_with_values(int size, const schedules& all, const claim& claimed, way how) {
    if (claimed.keeps >= order::tree || !claimed.promise->folds) return run<rank_interval>(size, all, claimed, how);
    if (claimed.keeps == order::rank) return run<bracketed<rank_interval>>(size, all, claimed, how);
    if (size <= 64) return run<bracketed<rank_set<1>>>(size, all, claimed, how);
    if (size <= 512) return run<bracketed<rank_set<8>>>(size, all, claimed, how);
    if (size <= 4096) return run<bracketed<rank_set<64>>>(size, all, claimed, how);
    throw error(errc::bad_argument,
                "prove: at most 4096 ranks for a schedule without rank order, not " + std::to_string(size));
}

[[nodiscard]] constexpr proof prove_all(int size, const schedules& all, const claim& claimed, way how = way::both) {
    if (size < 1) return {.what = fault::unsupported, .size = size};
    proof outcome = check_shape(size, all, claimed);
    if (outcome.ok() && size > 1) outcome = run_with_values(size, all, claimed, how);
    outcome.size = size;
    outcome.group = all.group();
    outcome.blocks = all.blocks(0);
    return outcome;
}

}  // namespace detail

/// Proves the schedules that `make(rank)` returns for all ranks below `size`, against a claim.
/// @throws error (bad_argument) for more than 4096 ranks if the order is `any`, whose proof takes P bits a block.
template <class Make>
    requires schedule<std::invoke_result_t<const Make&, int>>
[[nodiscard]] constexpr proof prove(int size, const Make& make, const claim& claimed) {
    return detail::prove_all(size, detail::schedules_of(size, make), claimed);
}

namespace detail {

[[nodiscard]] constexpr bool names_each_rank_once(const int* destinations, int size) {
    rank_bits seen(size);
    for (int r = 0; r < size; ++r) {
        const int to = destinations[r];
        if (to < 0 || to >= size || seen.contains(to)) return false;
        seen.insert(to);
    }
    return true;
}

/// The setting with a root that exists. The root of a permutation is a shift, by any number.
[[nodiscard]] constexpr setting with_root(const char* caller, const contract& promise, setting where) {
    if (!promise.rooted || where.size < 1) return where;
    const bool permutes = promise.cut == cut_for::owner;
    if (permutes && where.destinations == nullptr) where.root = (where.root % where.size + where.size) % where.size;
    if (permutes ? where.destinations == nullptr || names_each_rank_once(where.destinations, where.size)
                 : where.root >= 0 && where.root < where.size)
        return where;
    const std::string ranks = std::to_string(where.size) + " ranks", before = std::string(caller) + ": ";
    throw error(errc::bad_rank, permutes ? before + "the destinations of " + ranks + " are no permutation"
                                         : before + "root " + std::to_string(where.root) + " of " + ranks);
}

template <class Collective, class Algorithm>
[[nodiscard]] constexpr proof prove_one(const Collective& what, const Algorithm& algorithm, const setting& given,
                                        way how) {
    using S = schedule_in<Collective, Algorithm>;
    if (!supports<S>(given.size, given.group))
        return {.what = fault::unsupported, .size = given.size, .group = grouped_schedule<S> ? given.group : 1};
    const setting where = with_root("prove", what.promise, given);
    const auto make = [&](int rank) { return make_schedule<S>(where.at(rank), algorithm); };
    claim claimed = claim_of(what, algorithm, where.root, where.group);
    claimed.destinations = where.destinations;
    return detail::prove_all(where.size, schedules_of(where.size, make), claimed, how);
}

}  // namespace detail

/// Proves the schedule that an algorithm has for a collective: `prove(all_reduce, ring{}, 8)`. A grouped one is proved
/// for groups of `group`. For a permutation, `root` is the shift.
/// @throws error (bad_rank) if there is no such root.
template <class Collective, class Algorithm>
    requires schedule<schedule_in<Collective, Algorithm>>
[[nodiscard]] constexpr proof prove(const Collective& what, const Algorithm& algorithm, int size, int root = 0,
                                    int group = 1) {
    return detail::prove_one(what, algorithm, setting{0, size, root, group}, detail::way::both);
}
/// The same for a permutation given as a list, the `destinations` of a setting.
/// @throws error (bad_rank) if it is no permutation.
template <class Collective, class Algorithm>
    requires schedule<schedule_in<Collective, Algorithm>>
[[nodiscard]] constexpr proof prove(const Collective& what, const Algorithm& algorithm, const setting& where) {
    return detail::prove_one(what, algorithm, where, detail::way::both);
}

namespace detail {

/// The roots for which a schedule of `size` ranks is proved: all of them if there are few ranks; else one in between
/// and the last; for many ranks one of those two, alternating with their number.
[[nodiscard]] constexpr int roots_to_prove(const contract& promise, int size) noexcept {
    if (!promise.rooted) return 1;
    return size <= 8 ? size : size <= 16 ? 2 : 1;
}
[[nodiscard]] constexpr int root_to_prove(int i, int size) noexcept {
    if (size <= 8) return i;
    return (size <= 16 ? i : size % 2) == 0 ? size / 3 : size - 1;
}

}  // namespace detail

/// Whether the schedule is proved for `size` ranks: for all roots if there are at most 8 ranks, for one in between and
/// the last if there are at most 16, and for one of those two if there are more.
template <class Collective, class Algorithm>
[[nodiscard]] constexpr bool proved(const Collective& what, const Algorithm& algorithm, int size, int group = 1) {
    for (int i = 0; i < detail::roots_to_prove(Collective::promise, size); ++i)
        if (!prove(what, algorithm, size, detail::root_to_prove(i, size), group).ok()) return false;
    return true;
}

namespace detail {

template <const auto& Collective, auto Algorithm, int Size, int Group, int Root, way How>
inline constexpr bool proved_one_way = prove_one(Collective, Algorithm, setting{0, Size, Root, Group}, How).ok();
template <const auto& Collective, auto Algorithm, int Size, int Group, int Root>
inline constexpr bool proved_at = proved_one_way<Collective, Algorithm, Size, Group, Root, way::step_by_step> &&
                                  proved_one_way<Collective, Algorithm, Size, Group, Root, way::in_one_pass>;

template <const auto& Collective, auto Algorithm, int Size, int Group, int... Roots>
[[nodiscard]] constexpr bool proved_for_roots(std::integer_sequence<int, Roots...>) noexcept {
    if constexpr (supports<
                      schedule_in<std::remove_cvref_t<decltype(Collective)>, std::remove_const_t<decltype(Algorithm)>>>(
                      Size, Group))
        return (proved_at<Collective, Algorithm, Size, Group, root_to_prove(Roots, Size)> && ...);
    else
        return true;
}

template <const auto& Collective, auto Algorithm, int Group, int... Before>
[[nodiscard]] constexpr bool proved_for_sizes(std::integer_sequence<int, Before...>) noexcept {
    return (proved_for_roots<Collective, Algorithm, Before + 1, Group>(
                std::make_integer_sequence<int, roots_to_prove(std::remove_cvref_t<decltype(Collective)>::promise,
                                                               Before + 1)>()) &&
            ...);
}

}  // namespace detail

/// Whether the schedule is proved for each number of ranks from 1 to `Last` that it supports:
/// `static_assert(proved_up_to<all_reduce, ring{}, 32>)`. Each number is a constant evaluation of its own, so that
/// compilers' limits on a single one are not exceeded. `proved_up_to<all_reduce, two_level{}, 32, 4>` does so for
/// groups of 4.
template <const auto& Collective, auto Algorithm, int Last, int Group = 1>
inline constexpr bool proved_up_to =
    detail::proved_for_sizes<Collective, Algorithm, Group>(std::make_integer_sequence<int, Last>());

}  // namespace allfold
