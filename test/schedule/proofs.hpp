// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <type_traits>
#include <utility>

#include "allfold/analysis/prove.hpp"

/// @file
/// How many proofs a compiler makes. One build makes all of them. Builds with another compiler make the largest ones
/// only: those that come nearest to its limit for a constant expression.

namespace test {

#ifdef ALLFOLD_PROVE_LARGEST
template <const auto& Collective, auto Algorithm, int Last, int Group = 1>
inline constexpr bool proved_up_to =
    allfold::supports<allfold::schedule_in<std::remove_cvref_t<decltype(Collective)>, decltype(Algorithm)>>(
        Last / Group * Group, Group) &&  // else nothing would be proved
    allfold::detail::proved_for_roots<Collective, Algorithm, Last / Group * Group, Group>(
        std::make_integer_sequence<int, allfold::detail::roots_to_prove(
                                            std::remove_cvref_t<decltype(Collective)>::promise, Last)>());
#else
using allfold::proved_up_to;
#endif

}  // namespace test
