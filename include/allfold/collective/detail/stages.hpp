// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <concepts>
#include <cstddef>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "allfold/collective/detail/issue.hpp"
#include "allfold/collective/sync.hpp"
#include "allfold/engine/composite.hpp"

/// @file
/// Calls made of several collectives, with local work of each rank between them. Such a call has a member
/// `lay_out(stages)`, which allocates memory and names the stages in order:
///
///     stages.own(work);                     // what this rank does alone; a failure breaks the communicator
///     stages.compare(work);                 // the same, if all ranks throw or none does
///     stages.run(collective, arguments...)  // what all ranks do together
///     stages.run_deferred(collective, give)     // the same: give(use) calls use(arguments...)
///
/// The lanes of a collective are numbered when the call starts, not when its turn comes, because turns come in a
/// different order on each rank. All sizes must therefore be known before the first stage runs. The exception is
/// `run_deferred`, which moves blocks whose lengths each rank determines: it asks for arguments when the call is laid
/// out, and again when the stage's turn comes.

namespace allfold::detail {

/// Runs each stage as soon as it is named.
template <class Comm>
class immediate_stages {
  public:
    static constexpr bool is_deferred = false;

    explicit immediate_stages(Comm& comm) noexcept : comm_(comm) {}

    template <class Work>
    void own(const Work& work) {
        detail::make_or_abort(comm_, work);
    }
    template <class Work>
    void compare(const Work& work) {
        work();
    }
    template <class Collective, class... Arguments>
    void run(const Collective& collective, Arguments&&... arguments) {
        collective(comm_, std::forward<Arguments>(arguments)...);
    }
    template <class Collective, class Give>
    void run_deferred(const Collective& collective, Give give) {
        give([&](auto&&... arguments) { run(collective, std::forward<decltype(arguments)>(arguments)...); });
    }

  private:
    Comm& comm_;
};

/// Collects the stages of an operation in flight.
template <class Comm>
class deferred_stages {
  public:
    static constexpr bool is_deferred = true;

    explicit deferred_stages(Comm& comm) : comm_(comm) {}

    template <class Work>
    void own(const Work& work) {
        own_.push_back(local_stage(parts_.size(), work));
    }
    template <class Work>
    void compare(const Work& work) {
        own(work);
    }
    template <class Collective, class... Arguments>
    void run(const Collective& collective, Arguments&&... arguments) {
        parts_.push_back(handles::take(collective.prepare(comm_, std::forward<Arguments>(arguments)...)));
    }
    template <class Collective, class Give>
    void run_deferred(const Collective& collective, Give give) {
        const auto prepare = [&comm = comm_, collective, give](pending* before) {
            std::unique_ptr<pending> made;
            give([&](auto&&... arguments) {
                made = handles::take(
                    collective.prepare(comm, std::forward<decltype(arguments)>(arguments)..., deferred_blocks{before}));
            });
            return made;
        };
        std::unique_ptr<pending> made = prepare(nullptr);
        own([prepare, before = made.get()] { static_cast<void>(prepare(before)); });
        parts_.push_back(std::move(made));
    }
    /// `memory` is kept alive for all stages.
    [[nodiscard]] std::unique_ptr<pending> as_task(const char* name, std::unique_ptr<background::resource> memory) {
        return std::make_unique<sequential_task<Comm>>(comm_, name, std::move(parts_), std::move(own_),
                                                       std::move(memory));
    }

  private:
    Comm& comm_;
    background::preparing_parts preparing_;
    typename composite<Comm>::tasks parts_;
    std::vector<local_stage> own_;
};

/// The first stage if the options ask for `in_sync::all`, since this rank's own work already reads its input. The
/// collectives after it need not wait again.
template <class Stages, class... Options>
void wait_for_entry(Stages& stages, std::tuple<Options...>& options) {
    if constexpr ((std::same_as<Options, in_sync> || ...)) {
        if (std::exchange(std::get<in_sync>(options), in_sync::mine) != in_sync::all) return;
        if constexpr ((std::same_as<Options, deadline> || ...))
            stages.run(barrier, std::get<deadline>(options));
        else
            stages.run(barrier);
    }
}

/// The verb as far as the type of a call in stages depends on it: operations in flight have one type.
template <verb V>
inline constexpr verb staged = V == verb::call ? verb::call : verb::start;

/// How a call in stages holds an argument: a blocking call leaves it with the caller.
template <verb V, class X>
using held_by_call = std::conditional_t<V == verb::call, const X&, X>;

/// The base class of such a call: an operation in flight keeps the call alive, while a blocking call has it on the
/// stack.
struct on_stack {};
template <verb V>
using base_of_call = std::conditional_t<V == verb::call, on_stack, background::resource>;

/// Carries out the verb on a call in stages, which is constructed from a communicator and arguments.
template <verb V, class Call, class Comm, class... Arguments>
outcome_of<V> issue_in_stages(Comm& comm, const char* name, Arguments&&... arguments) {
    if constexpr (V == verb::call) {
        Call call = detail::make_or_abort(comm, [&] { return Call(comm, std::forward<Arguments>(arguments)...); });
        immediate_stages<Comm> stages(comm);
        run_on_own_memory(comm, [&] { detail::abort_unless_error(comm, [&] { call.lay_out(stages); }); }, call);
    } else {
        require_outside_operator(comm, name);
        return hand_out<V>(detail::make_or_abort(comm, [&] {
            auto* const call = new Call(comm, std::forward<Arguments>(arguments)...);
            std::unique_ptr<background::resource> memory(call);
            deferred_stages<Comm> stages(comm);
            call->lay_out(stages);
            return stages.as_task(name, std::move(memory));
        }));
    }
}

}  // namespace allfold::detail
