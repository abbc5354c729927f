// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <list>
#include <string>

#include "allfold/transport/hierarchy.hpp"
#include "allfold/transport/mpi.hpp"
#include "test/mpi/support/at_end.hpp"
#include "test/support/problems.hpp"
#include "test/support/watchdog.hpp"

/// @file
/// Runs the checks of the collectives on the ranks of an MPI job.

namespace test {

/// Almost nothing is sent with an envelope, parts are sent by themselves, in many pieces, and lanes share three tags.
inline constexpr allfold::mpi::tuning pinched{
    .eager_bytes = 64, .long_bytes = 40, .piece_bytes = 1000, .tags = 3, .spins = 0};

[[nodiscard]] inline int ranks_of_job() {
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
}

/// Whether a length is tried: thousands of pieces only with few ranks; more than 4 ranks, which may exceed the number
/// of cores, need not try every length around the number of ranks.
[[nodiscard]] inline bool is_tried(std::size_t n, bool is_pinched) {
    const auto P = static_cast<std::size_t>(ranks_of_job());
    if (is_pinched && n > 1000) return P <= 3;
    return P <= 4 || n == 0 || n > P;
}

/// One communicator for each tuning, for tests that leave it intact: with more ranks than cores, creating one takes
/// longer than most tests.
[[nodiscard]] inline allfold::mpi::communicator& shared_communicator(const allfold::mpi::tuning& numbers) {
    static std::list<allfold::mpi::communicator> all;
    if (all.empty()) at_end.push_back([] { all.clear(); });
    for (auto& each : all)
        if (each.tuning().eager_bytes == numbers.eager_bytes) return each;
    return all.emplace_back(MPI_COMM_WORLD, allfold::mpi::duplicate, numbers);
}

/// Calls check(comm, problem, where) on all ranks, with the default tuning of the transport and with `pinched`.
template <class Algebra, class Check>
void on_the_job(Check check) {
    const auto problems = problems_for<Algebra>(ranks_of_job());
    for (const auto& numbers : {allfold::mpi::tuning(), pinched}) {
        const watchdog watch(std::string(Algebra::name) + " on " + std::to_string(ranks_of_job()) + " processes");
        auto& comm = shared_communicator(numbers);
        const bool is_pinched = numbers == pinched;
        for (const auto& p : problems)
            if (is_tried(p.size(), is_pinched)) check(comm, p, place_of(comm, p) + (is_pinched ? ", pinched" : ""));
    }
}

/// The same on threads of processes.
template <class Algebra, class Check>
void on_threads_of_the_job(int threads, Check check) {
    const auto problems = problems_for<Algebra>(ranks_of_job() * threads);
    const watchdog watch(std::string(Algebra::name) + " on " + std::to_string(ranks_of_job()) + " processes of " +
                         std::to_string(threads) + " threads");
    allfold::run(shared_communicator({}), threads, [&](auto& comm) {
        for (const auto& p : problems) check(comm, p, place_of(comm, p) + ", in " + std::to_string(threads));
    });
}

}  // namespace test
