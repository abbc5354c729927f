// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include "allfold/collective/detail/verbs.hpp"
#include "allfold/schedule/step.hpp"
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

/// Calls check(name, options...) once without an algorithm, which leaves the choice to the library, and once for each
/// algorithm that has the collective on this many ranks, in groups of one, and keeps the order level.
template <int Level = 0, class Collective, class Check>
void for_each_algorithm(const Collective&, int ranks, Check check) {
    check("automatic");
    [&]<class... Algorithms>(algorithm_list<Algorithms...>) {
        const auto one = [&]<class Algorithm>(Algorithm algorithm) {
            if constexpr (can<Algorithm, Collective, Level>())
                if (allfold::supports<typename Collective::template schedule_in<Algorithm>>(ranks))
                    check(Algorithm::name, algorithm);
        };
        (one(Algorithms()), ...);
    }(every_algorithm());
}

}  // namespace test
