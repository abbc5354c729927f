// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/analysis/prove.hpp"

/// @file
/// What proofs at run time use, instantiated in provers.cpp: compiled once, and optimised.

namespace allfold::detail {

extern template proof run<rank_interval>(int, const schedules&, const claim&, way);
extern template proof run<bracketed<rank_interval>>(int, const schedules&, const claim&, way);
extern template proof run<bracketed<rank_set<1>>>(int, const schedules&, const claim&, way);
extern template proof run<bracketed<rank_set<8>>>(int, const schedules&, const claim&, way);
extern template proof run<bracketed<rank_set<64>>>(int, const schedules&, const claim&, way);

}  // namespace allfold::detail
