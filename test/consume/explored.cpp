// SPDX-License-Identifier: BSL-1.0
#include <iostream>

#include <allfold/algebra/arithmetic.hpp>
#include <allfold/analysis/explore.hpp>
#include <allfold/collective/all_reduce.hpp>

/// @file
/// A user's test that explores a program.

int main() {
    const auto found = allfold::explore(3, [](auto& comm) {
        const double x = comm.rank();
        return allfold::all_reduce(comm, x, allfold::sum());
    });
    std::cout << explain(found);
    return found.ok() && found.complete() ? 0 : 1;
}
