// SPDX-License-Identifier: BSL-1.0
#include "allfold/analysis/explore.hpp"

#include <array>
#include <cstddef>
#include <cstdio>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/barrier.hpp"
#include "allfold/engine/operation.hpp"

/// @file
/// Programs with a mistake that shows in some orders of arrival only, or hangs, and their mended twins. Each is called
/// for all orders that there are; what is found is printed.

namespace {

using allfold::explored_communicator;

/// A barrier that one branch skips.
void skipping_a_barrier(explored_communicator& comm) {
    double x = comm.rank();
    x = allfold::all_reduce(comm, x, allfold::sum());
    if (comm.rank() == 2) return;  // nothing more to do, thinks its author
    allfold::barrier(comm);
}
void keeping_the_barrier(explored_communicator& comm) {
    double x = comm.rank();
    x = allfold::all_reduce(comm, x, allfold::sum());
    allfold::barrier(comm);
}

/// Two sums in flight; the one that is done first is folded first, in a way in which that matters.
double in_order_of_completion(explored_communicator& comm, bool fixed) {
    std::array<double, 1> small{0.25}, large{1 << 20};
    std::array both{allfold::all_reduce.start(comm, small, allfold::sum()),
                    allfold::all_reduce.start(comm, large, allfold::sum())};
    double result = 1;
    for (int turn = 0; turn < 2; ++turn) {
        const auto done = fixed ? static_cast<std::size_t>(turn) : allfold::wait_any(both);
        both[done].wait();
        result = result / 2 + (done == 0 ? small[0] : large[0]);
    }
    return result;
}

bool shows(const char* name, const allfold::exploration& found, bool expected) {
    std::printf("%s\n    %s\n", name, explain(found).c_str());
    return found.ok() == expected && found.complete();
}

}  // namespace

int main() {
    bool as_expected = shows("a barrier that one branch skips", allfold::explore(3, skipping_a_barrier), false);
    as_expected &= shows("mended", allfold::explore(3, keeping_the_barrier), true);
    const auto first_come = [](explored_communicator& comm) { return in_order_of_completion(comm, false); };
    const auto in_turn = [](explored_communicator& comm) { return in_order_of_completion(comm, true); };
    const auto found = allfold::explore(3, first_come);
    as_expected &= shows("a result that depends on what is done first", found, false);
    as_expected &= !allfold::replay(3, first_come, found.first().schedule).ok();  // this execution, under a debugger
    as_expected &= shows("mended", allfold::explore(3, in_turn), true);
    return as_expected ? 0 : 1;
}
