// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <vector>

#include "every_algorithm.hpp"  // both generated from the library's headers: see cmake/listed_types.cmake
#include "every_collective.hpp"
#include <allfold/analysis/claim.hpp>
#include <allfold/schedule/any_schedule.hpp>
#include <allfold/schedule/contract.hpp>
#include <allfold/schedule/step.hpp>

/// @file
/// All collectives of the library, each with its algorithms, as values: each type there is a row of a table here.

namespace examples {

/// What one algorithm does for one collective.
struct entry {
    const allfold::contract* promise;
    std::string algorithm;  ///< as written in a program: `ring`
    const char* name;       ///< in words
    allfold::order keeps;
    bool equal_blocks;
    bool in_levels;  ///< it knows which ranks share memory
    bool (*supports)(int size, int group);
    allfold::any_schedule (*schedule)(const allfold::setting& where);
    allfold::claim (*claim)(int root, int group);

    [[nodiscard]] std::string_view collective() const { return promise->name; }
};

namespace detail {

template <class T>
[[nodiscard]] std::string name_of_type() {
    const std::string_view text = __PRETTY_FUNCTION__, before = "T = allfold::";
    const std::size_t first = text.find(before) + before.size();
    return std::string(text.substr(first, text.find_first_of(";]", first) - first));
}

template <class Algorithm, class Collective>
concept does = requires { typename allfold::schedule_in<Collective, Algorithm>; };

template <class Collective, class Algorithm>
[[nodiscard]] entry entry_of() {
    using S = allfold::schedule_in<Collective, Algorithm>;
    return {.promise = &Collective::promise,
            .algorithm = name_of_type<Algorithm>(),
            .name = Algorithm::name,
            .keeps = S::keeps,
            .equal_blocks = allfold::needs_equal_blocks<S>,
            .in_levels = allfold::grouped_schedule<S>,
            .supports = [](int size, int group) { return allfold::supports<S>(size, group); },
            .schedule =
                [](const allfold::setting& where) {
                    return allfold::any_schedule(allfold::make_schedule<S>(where, Algorithm()), Algorithm::name);
                },
            .claim = [](int root, int group) { return allfold::claim_of(Collective(), Algorithm(), root, group); }};
}

template <class Collective, class... Algorithms>
void enter(std::vector<entry>& all, test::algorithm_list<Algorithms...>) {
    const auto one = [&]<class Algorithm>(const Algorithm*) {
        if constexpr (does<Algorithm, Collective>) all.push_back(entry_of<Collective, Algorithm>());
    };
    (one(static_cast<const Algorithms*>(nullptr)), ...);
}

template <class... Collectives>
[[nodiscard]] std::vector<entry> catalogue_of(test::collective_list<Collectives...>) {
    std::vector<entry> all;
    (enter<Collectives>(all, test::every_algorithm()), ...);
    return all;
}

}  // namespace detail

[[nodiscard]] inline std::vector<entry> catalogue() { return detail::catalogue_of(test::every_collective()); }

}  // namespace examples
