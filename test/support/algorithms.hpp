// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include "allfold/engine/options.hpp"
#include "allfold/schedule/all_read.hpp"
#include "allfold/schedule/binomial.hpp"
#include "allfold/schedule/direct.hpp"
#include "allfold/schedule/dissemination.hpp"
#include "allfold/schedule/flat_tree.hpp"
#include "allfold/schedule/halving.hpp"
#include "allfold/schedule/neighbour_exchange.hpp"
#include "allfold/schedule/recursive_doubling.hpp"
#include "allfold/schedule/ring.hpp"

namespace test {

template <class... Algorithms>
struct algorithm_list {};

/// All there are: each collective is tested with those that have it.
using every_algorithm = algorithm_list<allfold::all_read, allfold::direct, allfold::flat_tree,
                                       allfold::recursive_doubling, allfold::neighbour_exchange, allfold::ring,
                                       allfold::halving, allfold::dissemination, allfold::binomial>;

/// Whether an algorithm can do the collective and gives the order level.
template <class Algorithm, allfold::collective Goal, int Level>
consteval bool can() {
    if constexpr (allfold::detail::algorithm_for<Algorithm, Goal>) {
        constexpr allfold::order keeps = allfold::detail::schedule_in<Algorithm, Goal>::type::keeps;
        return !allfold::folds(Goal) || keeps.level() >= Level;
    }
    return false;
}

template <class Algorithm, allfold::collective Goal>
bool exists_for(int ranks) {
    return allfold::supports<typename allfold::detail::schedule_in<Algorithm, Goal>::type>(ranks);
}

/// Calls check(name, options...) for no algorithm, which leaves the choice to the library, and for each one that can do
/// the collective on so many ranks and gives the order level.
template <allfold::collective Goal, int Level = 0, class Check>
void for_each_algorithm(int ranks, Check check) {
    check("automatic");
    [&]<class... Algorithms>(algorithm_list<Algorithms...>) {
        const auto one = [&]<class Algorithm>(Algorithm algorithm) {
            if constexpr (can<Algorithm, Goal, Level>())
                if (exists_for<Algorithm, Goal>(ranks)) check(Algorithm::name, algorithm);
        };
        (one(Algorithms()), ...);
    }(every_algorithm());
}

}  // namespace test
