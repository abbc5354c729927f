// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <concepts>
#include <functional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "allfold/analysis/detail/explored_values.hpp"
#include "allfold/analysis/detail/explored_world.hpp"
#include "allfold/analysis/detail/explorer.hpp"
#include "allfold/analysis/detail/search_tree.hpp"
#include "allfold/analysis/exploration.hpp"
#include "allfold/analysis/explored_communicator.hpp"
#include "allfold/error.hpp"
#include "allfold/transport/detail/cause.hpp"

/// @file
/// Runs a program in every way that the semantics of messages allow.
///
/// Not included by `allfold.hpp`: it requires <ucontext.h> and <sys/mman.h> of POSIX.

namespace allfold {
namespace detail {

template <class Program>
using value_of_program = std::remove_cvref_t<std::invoke_result_t<Program&, explored_communicator&>>;

/// Calls use(explorer&) for a program.
template <class Program, class WithExplorer>
exploration with_explorer(int size, Program& program, const explore_options& options, WithExplorer use) {
    using value = value_of_program<Program>;
    constexpr bool returns_nothing = std::is_void_v<value>;
    static_assert(returns_nothing || std::equality_comparable<std::conditional_t<returns_nothing, int, value>>,
                  "allfold: what an explored program returns is compared: its type needs an operator ==");
    if (size < 1 || size > search_tree::max_ranks)
        throw error(errc::bad_argument,
                    text({"explore: ", size, " ranks requested, 1 to ", search_tree::max_ranks, " are possible"}));
    auto values = [&] {
        if constexpr (returns_nothing)
            return no_values();
        else
            return values_of<value>(size);
    }();
    explored_world* world = nullptr;
    explored_world all(size, options.stack_bytes, options.tests, options.most_tests, [&](int rank) {
        try {
            explored_communicator comm(*world, rank);
            try {
                if constexpr (returns_nothing)
                    program(comm);
                else
                    values.set(rank, program(comm));
            } catch (...) {
                comm.abandon();
                world->of(rank).note_failure(current_cause());  // also what it could have caught
            }
        } catch (...) {
            world->of(rank).note_failure(current_cause());
        }
        world->detach_endpoints(rank);
    });
    world = &all;
    explorer what(all, values, options);
    return use(what);
}

}  // namespace detail

/// Runs `program(comm)` on `size` ranks, as `run` does, once for each order in which messages may arrive, and reports
/// what is wrong with any of these executions:
///
///     const auto found = explore(3, [](auto& comm) { ... return what_to_compare; });
///     REQUIRE(found.ok());  // or explain(found), and replay(3, program, found.first().schedule)
///
/// - A message arrives when its receiver waits for it, or tests: at that test, or later. Messages from one rank on one
///   lane keep their order, all others arrive in any order. Collectives run on the same engine as elsewhere. Executions
///   that differ only in the order in which different ranks make their steps count as one, and run once.
/// - Orders that no rank asks about are not tried (`explore_options::every_order`). An execution with standard sends
///   runs again with sends that wait for their receives where they can (`explore_options::sends`).
/// - A rank that fails stops; the others run on as far as they can without it, or are told, as on threads
///   (`explore_options::failures`). A team that still exists when its rank
///   has returned is ended then, and reported.
/// - What ranks return is compared, with ==, with what they returned in the first execution in which all of them do;
///   NaN is the same as NaN.
/// - The program is called many times, by one thread: any state that it keeps outside has to be set up anew by each
///   call. Everything it does has to follow from its rank and its messages; if it is seen not to, that is reported:
///   the first execution, and each with a fault, is run once more. Its `comm` is an `explored_communicator`, which
///   carries bytes: strings need a serializer, as they do over MPI.
/// - Ranks have stacks of `stack_bytes` each, 256 KiB by default: deep recursion and large local arrays need more. A
///   guard page beyond the end stops a program that overflows.
/// - A rank that waits for something outside (a mutex that another rank holds) ends the process after `step_seconds`,
///   with a message that names the rank; one that catches whatever is thrown, and calls again, ends the exploration,
///   and what it holds is never freed.
/// - A rank that aborts, as after a failed assertion, has failed, and ends the exploration: its stack is left as it is,
///   and nothing on it is destroyed. Until then, a handler of SIGABRT is installed for the whole process; several
///   explorations, each on a thread of its own, share it. `replay` leaves aborts alone.
/// - A deadline passes or does not pass, whatever its length (`explore_options::deadlines`).
/// - Not explored: that a transport refuses a post for lack of room.
/// - Cost: memory grows with the length of an execution, not with the number of executions. At most 64 ranks.
/// - Errors: `bad_argument` for a number of ranks that is not in [1, 64], and for an invalid frontier.
/// - Source: see analysis/detail/search_tree.hpp.
template <class Program>
    requires std::invocable<Program&, explored_communicator&>
[[nodiscard]] exploration explore(int size, Program&& program, const explore_options& options = {}) {
    return detail::with_explorer(size, program, options, [](detail::explorer& all) { return all.explore(); });
}

/// Runs exactly the execution of a finding or, if two differ, both of them one after the other, for use under a
/// debugger. The options must be those that it was found with. Throws `bad_argument` if `schedule` is not a schedule of
/// that many ranks.
template <class Program>
    requires std::invocable<Program&, explored_communicator&>
[[nodiscard]] exploration replay(int size, Program&& program, std::string_view schedule,
                                 const explore_options& options = {}) {
    return detail::with_explorer(size, program, options, [&](detail::explorer& all) { return all.replay(schedule); });
}

}  // namespace allfold
