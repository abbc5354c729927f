// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>

#include "allfold/engine/deadline.hpp"
#include "allfold/engine/execution.hpp"
#include "allfold/engine/row_table.hpp"
#include "allfold/engine/task.hpp"
#include "allfold/error.hpp"
#include "allfold/schedule/dissemination.hpp"
#include "allfold/schedule/recursive_doubling.hpp"

/// @file
/// All ranks check that they make the same call before it is left to a transport that does not check, and does not
/// notice failures.

namespace allfold::detail {

/// What a rank says about its call: a hash, and whether it may fail before it knows what the others say.
inline constexpr std::uint64_t may_fail = std::uint64_t{1} << 32;

/// Combines equal hashes, and whether any of the ranks may fail; any difference yields 0, which stays 0.
struct equal_or_zero {
    [[nodiscard]] std::uint64_t operator()(const std::uint64_t& a, const std::uint64_t& b) const noexcept {
        return ((a ^ b) | may_fail) == may_fail ? a | b : 0;
    }
};

/// A collective that carries at most one word, with everything that the engine does for any: failures, deadlines,
/// mismatches.
template <class Comm>
void run_small(Comm& comm, const any_schedule& schedule, const row_functions& functions, const signature& what,
               std::uint64_t& mine, std::uint64_t& common, const std::optional<deadline>& limit,
               while_waiting how = while_waiting::progress_others) {
    static constexpr equal_or_zero operation{};
    static constexpr std::size_t bytes = sizeof(std::uint64_t);
    const contract goal{.name = what.what, .folds = functions.fold != nullptr};
    const partition word = partition::even(1, 1);
    std::byte* const columns[] = {reinterpret_cast<std::byte*>(&mine), reinterpret_cast<std::byte*>(&common)};
    execution<Comm> running([&] {
        call<Comm> all{comm, goal, schedule, row_layout{&functions, &operation, &bytes, bytes}, {}, what};
        all.memory.blocks = all.memory.result_blocks = &word;
        all.memory.window_rows = 1;
        all.memory.input = {{&columns[0], 0}, 0};
        all.memory.result = {{&columns[1], 0}, 0};
        return all;
    });
    run_to_end(comm, running, limit, how);
}

/// Returns when all ranks have arrived here, none of which can fail any more: for what blocks without noticing
/// failures. If one of them may fail, that has to happen in an earlier collective.
template <communicator Comm>
void undisturbed_barrier(Comm& comm, const char* name) {
    signature what;
    what.what = name;
    std::uint64_t mine = 0, common = 0;
    const any_schedule meet(dissemination::barrier({comm.rank(), comm.size()}), "dissemination");
    run_small(comm, meet, functions_of_rows<no_fold, std::uint64_t>, what, mine, common, std::nullopt,
              while_waiting::nothing);
}

/// Returns when all ranks have reached the call `what`; throws on every rank if one of them makes a different call.
/// Every rank learns whether all of them agree, so none goes on where another one has stopped.
template <communicator Comm>
void agree(Comm& comm, const signature& what, const std::optional<deadline>& limit) {
    signature question;  // calls may differ: that is the question
    question.what = "agreement";
    const bool is_disturbed = background::in_flight() || limit;
    std::uint64_t mine = what.hash() | (is_disturbed ? may_fail : 0), common = mine;
    const setting where{comm.rank(), comm.size()};
    const any_schedule ask(recursive_doubling::all_reduce(where), "recursive doubling");
    run_small(comm, ask, functions_of_rows<equal_or_zero, std::uint64_t>, question, mine, common, limit);
    if ((common & may_fail) != 0) undisturbed_barrier(comm, question.what);
    if (common != 0) return;
    // Neighbours that differ find out here in what; all others are notified that they have failed.
    const any_schedule meet(dissemination::barrier(where), "dissemination");
    run_small(comm, meet, functions_of_rows<no_fold, std::uint64_t>, what, mine, common, limit);
    throw error(errc::mismatch, text({what.what, ": rank ", comm.rank(), ": ranks do not make the same call"}));
}

}  // namespace allfold::detail
