// SPDX-License-Identifier: BSL-1.0

/// @file
/// A user's program: four ranks add up eight ones each.

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <vector>

#include <allfold/allfold.hpp>

/// Names that allfold's headers use for locals and parameters too: with -Wshadow, that is no warning in this program.
struct state {};
int rank = 0, size = 0, count = 0, n = 0;

int main() {
    constexpr int ranks = 4;
    std::atomic<int> right = 0;
    allfold::run(ranks, [&](auto& comm) {
        std::vector<float> x(8, 1.F);
        allfold::all_reduce(comm, x, allfold::sum{});
        if (x == std::vector<float>(8, ranks)) ++right;
    });
    std::cout << "allfold " << ALLFOLD_VERSION_MAJOR << '.' << ALLFOLD_VERSION_MINOR << ": " << right << " of " << ranks
              << " ranks hold the sum\n";
    return right == ranks ? EXIT_SUCCESS : EXIT_FAILURE;
}
