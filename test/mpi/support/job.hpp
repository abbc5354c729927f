// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <exception>
#include <iostream>
#include <map>
#include <string>
#include <type_traits>
#include <utility>

#include "allfold/transport/hierarchy.hpp"
#include "allfold/transport/mpi.hpp"
#include "test/mpi/support/at_end.hpp"
#include "test/support/algebras.hpp"
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

/// One communicator for each tuning, for tests that leave it intact: with more ranks than cores, creating one takes
/// longer than most tests. If `first` is not 0, the first ranks of the job share one, and the others another one.
[[nodiscard]] inline allfold::mpi::communicator& shared_communicator(const allfold::mpi::tuning& numbers,
                                                                     int first = 0) {
    static std::map<std::pair<int, std::size_t>, allfold::mpi::communicator> all;
    if (all.empty()) at_end.push_back([] { all.clear(); });
    const std::pair key(first, numbers.eager_bytes);
    if (const auto found = all.find(key); found != all.end()) return found->second;
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm part = MPI_COMM_WORLD;
    if (first > 0) MPI_Comm_split(MPI_COMM_WORLD, rank < first ? 0 : 1, 0, &part);
    auto& made = all.try_emplace(key, part, allfold::mpi::duplicate, numbers).first->second;
    if (first > 0) MPI_Comm_free(&part);
    return made;
}

/// What checks on one of two groups have thrown is printed at once, and thrown only after those on all other groups:
/// ranks of the other group would wait there for this one.
class kept_failure {
  public:
    template <class Check>
    void try_to(Check check) {
        try {
            check();
        } catch (const std::exception& e) {
            std::cerr << e.what() << std::endl;
            if (!first_) first_ = std::current_exception();
        }
    }
    void rethrow() const {
        if (first_) std::rethrow_exception(first_);
    }

  private:
    std::exception_ptr first_;
};

/// Calls check(comm, is_pinched) on all ranks of the job, and then on its first rank and the others, its first two
/// ranks and the others, and so on: two groups check at the same time, and with 8 ranks there are groups of 1 to 8.
/// Each has the default tuning of the transport and `pinched`, but of two equal halves, each has one.
template <class Check>
void on_groups_of_the_job(Check check) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    kept_failure failure;
    for (int first = 0, all = ranks_of_job(); first <= all / 2; ++first)
        for (const bool is_pinched : {false, true}) {
            auto& comm = shared_communicator(is_pinched ? pinched : allfold::mpi::tuning(), first);
            if (2 * first != all || is_pinched != (rank < first)) failure.try_to([&] { check(comm, is_pinched); });
        }
    failure.rethrow();
}

/// With more ranks than cores, everything takes long: larger jobs leave out what other groups, or other tests, do.
[[nodiscard]] inline bool is_thorough() { return ranks_of_job() <= 4; }

/// Calls check(comm, where) on groups of the job. In a large job, each has one of the tunings, and for words the other.
template <class Algebra, class Check>
void on_groups_in_turn(Check check) {
    const watchdog watch(std::string(Algebra::name) + " on groups of " + std::to_string(ranks_of_job()));
    on_groups_of_the_job([&](auto& comm, bool is_pinched) {
        const bool is_odd = (comm.size() + (std::is_same_v<Algebra, words> ? 1 : 0)) % 2 == 1;
        const bool is_half = 2 * comm.size() == ranks_of_job();
        if (is_thorough() || is_half || is_odd == is_pinched) check(comm, is_pinched ? "pinched" : "processes");
    });
}

/// Calls check(comm, problem, where) on groups of the job. In a large job, a group tries every fourth length with an
/// algebra and a tuning, other ones with others, and so all of them; only 2 and 3 ranks send thousands of pieces.
template <class Algebra, class Check>
void on_the_job(Check check) {
    const watchdog watch(std::string(Algebra::name) + " on " + std::to_string(ranks_of_job()) + " processes");
    constexpr int copied = std::is_trivially_copyable_v<typename Algebra::element> ? 1 : 0;
    on_groups_of_the_job([&](auto& comm, bool is_pinched) {
        int turn = comm.size() + copied + (Algebra::exact ? 0 : 1) + (is_pinched ? 1 : 0);
        for (const auto& p : problems_for<Algebra>(comm.size())) {
            const bool is_next = turn++ % 4 == 0 || is_thorough(), is_long = p.size() > 1000;
            if (is_long ? comm.size() <= 3 || !(is_pinched || Algebra::exact) : is_next)
                check(comm, p, place_of(comm, p) + (is_pinched ? ", pinched" : ""));
        }
    });
}

/// The same on threads of the processes, which with many of these try every other length.
template <class Algebra, class Check>
void on_threads_of_the_job(int threads, Check check) {
    const auto problems = problems_for<Algebra>(ranks_of_job() * threads);
    const watchdog watch(std::string(Algebra::name) + " on " + std::to_string(ranks_of_job()) + " processes of " +
                         std::to_string(threads) + " threads");
    allfold::run(shared_communicator({}), threads, [&](auto& comm) {
        int turn = threads + (Algebra::exact ? 0 : 1);
        for (const auto& p : problems)
            if (turn++ % 2 == 0 || is_thorough()) check(comm, p, place_of(comm, p) + ", in " + std::to_string(threads));
    });
}

}  // namespace test
