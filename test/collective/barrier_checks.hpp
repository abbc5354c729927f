// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "allfold/collective/all_gather.hpp"
#include "allfold/collective/barrier.hpp"
#include "test/support/algorithms.hpp"
#include "test/support/oracle.hpp"
#include "test/support/problems.hpp"

/// @file
/// What barrier must do on any communicator whose ranks run on one machine.

namespace test {

/// When a rank entered a barrier and when it left it, in nanoseconds of the clock that all processes of a machine
/// share. Values that are never filled in contradict those of all other ranks.
struct stay {
    std::int64_t came = std::numeric_limits<std::int64_t>::max();
    std::int64_t left = std::numeric_limits<std::int64_t>::min();
};

inline std::int64_t nanoseconds_now() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

/// No rank may leave the barrier before all ranks have entered it; rank `late` enters it late.
template <class Comm, class... Options>
void check_barrier_orders(Comm& comm, int late, const std::string& where, const Options&... options) {
    stay mine;
    if (comm.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    mine.came = nanoseconds_now();
    allfold::barrier(comm, options...);
    mine.left = nanoseconds_now();

    std::vector<stay> stays(static_cast<std::size_t>(comm.size()));
    allfold::all_gather(comm, mine, stays);
    const auto last = std::ranges::max_element(stays, {}, &stay::came);
    const auto first = std::ranges::min_element(stays, {}, &stay::left);
    expect(last->came <= first->left, where + ": rank " + std::to_string(first - stays.begin()) + " left " +
                                          std::to_string(last->came - first->left) + " ns before rank " +
                                          std::to_string(last - stays.begin()) + " came");
}

/// Checks every algorithm, with each of some ranks late.
template <class Comm>
void check_barrier_with_all_algorithms(Comm& comm, const std::string& where) {
    for_each_algorithm(allfold::barrier, comm.size(), [&](const char* name, auto... algorithm) {
        for (const int late : roots_of(comm.size()))
            check_barrier_orders(comm, late, where + ", rank " + std::to_string(late) + " late, " + name, algorithm...);
    });
}

}  // namespace test
