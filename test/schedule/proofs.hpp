// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <type_traits>
#include <utility>

#include "allfold/analysis/prove.hpp"

/// @file
/// How many schedules a build proves at compile time. The preset `clang` proves all of them, since clang needs a tenth
/// of the memory that g++ does, so that many are one source; other builds prove only the largest, which come closest to
/// the compiler's limit for constant expressions.

namespace test {

#ifdef ALLFOLD_PROVE_LARGEST
template <const auto& Collective, auto Algorithm, int Last, int Group = 1>
inline constexpr bool proved_up_to =
    allfold::supports<allfold::schedule_in<std::remove_cvref_t<decltype(Collective)>, decltype(Algorithm)>>(
        Last / Group * Group, Group) &&  // otherwise nothing would be proved
    allfold::detail::proved_for_roots<Collective, Algorithm, Last / Group * Group, Group>(
        std::make_integer_sequence<int, allfold::detail::roots_to_prove(
                                            std::remove_cvref_t<decltype(Collective)>::promise, Last)>());
#else
using allfold::proved_up_to;
#endif

}  // namespace test
