// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include "allfold/transport/hierarchy.hpp"
#include "test/support/ranks.hpp"
#include "test/support/remote.hpp"

/// @file
/// Hierarchies of threads, where a thread stands in for each process. They are of one type, whether messages between
/// processes are copied or not, since every call is compiled for each type of communicator.

namespace test {

/// Calls check(comm) on `threads` threads of each of `processes` threads.
template <class Check>
void on_threads_of_threads(int processes, int threads, Check check) {
    on_ranks(processes, [&](allfold::thread_communicator& base) {
        remote across(base, true);
        allfold::run(across, threads, program_on<allfold::hierarchical_communicator<remote>>(check));
    });
}

/// Calls check(comm, where) on hierarchies of two and of three processes and of as many threads, and on one in which
/// messages between processes are copied. With sanitizers only on two of them.
template <class Check>
void on_hierarchies_of_few(Check check) {
    const auto named = [&check](const std::string& group) {
        return [&check, group](auto& comm) { check(comm, "rank " + std::to_string(comm.rank()) + " of " + group); };
    };
    on_threads_of_threads(2, 2, named("2 x 2"));
    on_threads_of_threads(3, 2, named("3 x 2"));
#ifndef ALLFOLD_TEST_SANITIZED
    on_threads_of_threads(2, 3, named("2 x 3"));
    on_ranks(
        3,
        [&](auto& base) {
            remote across(base);
            auto check_here = named("3 x 2, copied");
            allfold::run(across, 2, program_on<allfold::hierarchical_communicator<remote>>(check_here));
        },
        roomy);
#endif
}

/// Calls check(comm) on ranks that share memory, on ranks that do not, and on threads of processes.
template <class Check>
void on_all_kinds_of_ranks(Check check) {
    for (const int size : {1, 2, 3, 5}) on_ranks(size, check);
    for (const int size : {2, 3})
        on_ranks(
            size,
            [&](auto& base) {
                remote comm(base);
                check(comm);
            },
            roomy);
    on_hierarchies_of_few([&](auto& comm, const std::string&) { check(comm); });
}

}  // namespace test
