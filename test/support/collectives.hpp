// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "every_collective.hpp"  // made from the headers in collective/: see test/CMakeLists.txt

namespace test {

/// Calls visit(collective) for each collective.
template <class Visit>
void for_each_collective(Visit visit) {
    [&]<class... Collectives>(collective_list<Collectives...>) { (visit(Collectives()), ...); }(every_collective());
}

}  // namespace test
