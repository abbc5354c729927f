// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <cstddef>
#include <span>

#include "allfold/collective/detail/verbs.hpp"
#include "allfold/schedule/all_read.hpp"
#include "allfold/schedule/dissemination.hpp"
#include "allfold/schedule/flat_tree.hpp"
#include "allfold/schedule/two_level.hpp"

/// @file
/// No rank leaves before all ranks have arrived.

namespace allfold {
namespace detail {

struct barrier_collective : private moving_verbs<barrier_collective> {
    template <class Algorithm>
    using schedule_in = typename Algorithm::barrier;

    static constexpr contract promise{.name = "barrier", .cut = cut_for::nobody, .synchronises = true};
    static constexpr candidate in_memory[]{
        when<all_read::barrier>(few_ranks, "few ranks: one round of flags"),
        when<flat_tree::barrier>(one_folds_for_all, "several ranks per core: the fewest messages"),
        when<dissemination::barrier>(always, "the fewest rounds for many ranks"),
    };
    static constexpr candidate by_messages[]{
        when<all_read::barrier>(ranks_for_one_round, "few ranks: one round"),
        when<dissemination::barrier>(always, "the fewest rounds for many ranks"),
    };
    static constexpr candidate in_levels[]{
        when<two_level::barrier>(always, "threads within processes: two levels, the fewest rounds between processes"),
    };
    [[nodiscard]] static shape lay_out(const arguments_given&) { return {}; }

    template <communicator Comm, option... Options>
    void operator()(Comm& comm, const Options&... options) const {
        moving_verbs::operator()(comm, nothing_to_move(), options...);
    }
    template <communicator Comm, option... Options>
    [[nodiscard]] operation start(Comm& comm, const Options&... options) const {
        return moving_verbs::start(comm, nothing_to_move(), options...);
    }
    template <communicator Comm, option... Options>
    [[nodiscard]] persistent prepare(Comm& comm, const Options&... options) const {
        return moving_verbs::prepare(comm, nothing_to_move(), options...);
    }
    using verbs_without_communicator::operator(), verbs_without_communicator::start,
        verbs_without_communicator::prepare;
    using moving_verbs::plan;
    using moving_verbs::with;

  private:
    [[nodiscard]] static std::span<std::byte> nothing_to_move() noexcept { return {}; }
};

}  // namespace detail

/// Returns when every rank has called it.
///
///     barrier(comm, options...)
///
/// - Cost: on shared memory with up to 16 ranks, 1 round in which each rank sends P-1 empty messages; with more ranks,
///   several of them per core, 2 rounds and 2·(P-1) messages in all, through rank 0; otherwise ceil(log2 P) rounds of
///   one message each.
/// - What a rank wrote before the barrier is visible to every rank of the process after it.
/// - Example: examples/collectives.cpp
inline constexpr detail::barrier_collective barrier{};

}  // namespace allfold
