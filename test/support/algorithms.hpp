// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/collective/any_algorithm.hpp"
#include "allfold/collective/detail/verbs.hpp"
#include "allfold/schedule/step.hpp"
#include "allfold/transport/communicator.hpp"
#include "every_algorithm.hpp"  // made from the headers in schedule/: see test/CMakeLists.txt

namespace test {

/// Whether an algorithm has the collective and keeps the order level.
template <class Algorithm, class Collective, int Level>
consteval bool can() {
    if constexpr (allfold::detail::algorithm_for<Algorithm, Collective>) {
        constexpr allfold::order keeps = Collective::template schedule_in<Algorithm>::keeps;
        return !Collective::promise.folds || keeps.level() >= Level;
    }
    return false;
}

/// Whether all ranks can run a schedule: those of a hierarchy only one that knows the groups.
template <class Schedule, bool HasGroups>
inline constexpr bool reaches_all = !HasGroups || allfold::grouped_schedule<Schedule>;

/// Calls check(algorithm) once for each algorithm that has the collective on this many ranks, in groups of this size,
/// and keeps the order level. Tests that give it calls of many kinds take long to compile: see `for_each_algorithm`.
template <int Level = 0, bool HasGroups = false, class Collective, class Check>
void for_each_algorithm_type(const Collective&, int ranks, Check check, int group = 1) {
    [&]<class... Algorithms>(algorithm_list<Algorithms...>) {
        const auto one = [&]<class Algorithm>(Algorithm algorithm) {
            if constexpr (can<Algorithm, Collective, Level>()) {
                using schedule = typename Collective::template schedule_in<Algorithm>;
                if constexpr (reaches_all<schedule, HasGroups>)
                    if (allfold::supports<schedule>(ranks, group)) check(algorithm);
            }
        };
        (one(Algorithms()), ...);
    }(every_algorithm());
}

/// Calls check(name, options...) once without an algorithm, which leaves the choice to the library, and once for each
/// algorithm, chosen at run time. That this is the same as its type is tested once (collective/any_algorithm_test.cpp):
/// with types, the calls of a check would be compiled for each of them.
template <int Level = 0, bool HasGroups = false, class Collective, class Check>
void for_each_algorithm(const Collective& collective, int ranks, Check check, int group = 1) {
    check("automatic");
    for_each_algorithm_type<Level, HasGroups>(
        collective, ranks,
        [&](const auto& algorithm) {
            const allfold::any_algorithm chosen(collective, algorithm);
            check(chosen.name(), chosen);
        },
        group);
}

/// The same for the ranks of a communicator.
template <int Level = 0, class Collective, allfold::communicator Comm, class Check>
void for_each_algorithm(const Collective& collective, const Comm& comm, Check check) {
    for_each_algorithm<Level, Comm::has_groups>(collective, comm.size(), check, comm.group());
}

}  // namespace test
