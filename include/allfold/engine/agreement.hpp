// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>

#include "allfold/algebra/logic.hpp"
#include "allfold/engine/deadline.hpp"
#include "allfold/engine/execution.hpp"
#include "allfold/engine/row_table.hpp"
#include "allfold/engine/task.hpp"
#include "allfold/schedule/dissemination.hpp"
#include "allfold/schedule/recursive_doubling.hpp"

/// @file
/// All ranks check that they make the same call before it is left to a transport that does not check, and does not
/// notice failures.

namespace allfold::detail {

/// A collective that carries at most one word, with everything that the engine does for any: failures, deadlines,
/// mismatches.
template <class Comm>
void run_small(Comm& comm, const any_schedule& schedule, const row_functions& functions, const signature& what,
               std::uint64_t& mine, std::uint64_t& common, const std::optional<deadline>& limit,
               while_waiting how = while_waiting::progress_others) {
    static constexpr bit_or operation{};
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

/// Returns when all ranks have reached the call `what`; throws on every rank if one of them makes a different call. No
/// rank returns before it has heard of all others, directly or through others that agree with each other.
template <communicator Comm>
void agree(Comm& comm, signature what, const std::optional<deadline>& limit) {
    constexpr std::uint64_t mark = 0x94d049bb133111eb;  // not the hash of the same call with a schedule of ours
    what.schedule = "the transport's own";
    what.type_id ^= mark;
    const bool may_fail = background::in_flight() || limit;  // before this rank knows what the others say
    std::uint64_t mine = may_fail ? 1 : 0, common = mine;
    const any_schedule ask(recursive_doubling::all_reduce({comm.rank(), comm.size()}), "recursive doubling");
    run_small(comm, ask, functions_of_rows<bit_or, std::uint64_t>, what, mine, common, limit);
    if (common != 0) undisturbed_barrier(comm, what.what);
}

}  // namespace allfold::detail
