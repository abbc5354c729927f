// SPDX-License-Identifier: BSL-1.0
#include "test/support/provers.hpp"

namespace allfold::detail {

template proof run<rank_interval>(int, const schedules&, const claim&, way);
template proof run<bracketed<rank_interval>>(int, const schedules&, const claim&, way);
template proof run<bracketed<rank_set<1>>>(int, const schedules&, const claim&, way);
template proof run<bracketed<rank_set<8>>>(int, const schedules&, const claim&, way);
template proof run<bracketed<rank_set<64>>>(int, const schedules&, const claim&, way);

}  // namespace allfold::detail
