// SPDX-License-Identifier: BSL-1.0
#include "allfold/collective/barrier.hpp"

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

#include "allfold/transport/thread.hpp"
#include "test/collective/barrier_checks.hpp"
#include "test/support/algorithms.hpp"
#include "test/support/catch.hpp"
#include "test/support/groups.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/remote.hpp"

using namespace test;

namespace {

/// No rank may leave barrier number `turn` before all ranks have entered it. For threads, which share one `come`.
template <class Comm, class... Options>
void check_barrier(Comm& comm, std::atomic<int>& come, int turn, const std::string& where, const Options&... options) {
    come.fetch_add(1, std::memory_order_relaxed);
    allfold::barrier(comm, options...);
    const int seen = come.load(std::memory_order_relaxed);
    expect(seen >= (turn + 1) * comm.size(), where + ": left when " + std::to_string(seen) + " had come");
}

}  // namespace

TEST_CASE("barrier lets no rank leave before all have entered") {
    constexpr int turns = 20;
    for (const int size : group_sizes) {
        for (const auto& tuning : {allfold::thread_tuning(), impatient}) {
            std::atomic<int> come = 0;
            const auto body = [&](allfold::thread_communicator& comm) {
                int turn = 0;
                for_each_algorithm(allfold::barrier, comm.size(), [&](const char* name, auto... algorithm) {
                    for (int i = 0; i < turns; ++i)
                        check_barrier(comm, come, turn++, std::to_string(size) + " ranks, " + name, algorithm...);
                });
            };
            on_ranks(size, body, tuning);
        }
    }
    SUCCEED();
}

TEST_CASE("barrier lets no rank leave before all have entered, by the clock") {
    for (const int size : group_sizes)
        on_ranks(size, [&](auto& comm) { check_barrier_with_all_algorithms(comm, std::to_string(size) + " ranks"); });
    SUCCEED();
}

TEST_CASE("barrier works where ranks share no memory") {
    for (const int size : group_sizes) {
        std::atomic<int> come = 0;
        const auto body = [&](allfold::thread_communicator& base) {
            remote comm(base);
            const std::string where = std::to_string(size) + " ranks, remote";
            for (int turn = 0; turn < 5; ++turn) check_barrier(comm, come, turn, where);
            check_barrier_with_all_algorithms(comm, where);
        };
        on_ranks(size, body, roomy);
    }
    SUCCEED();
}

TEST_CASE("writes before a barrier are visible to all ranks after it") {
    std::vector<int> shared(4);
    on_ranks(4, [&](auto& comm) {
        for (int turn = 0; turn < 100; ++turn) {
            shared[static_cast<std::size_t>(comm.rank())] = turn;
            allfold::barrier(comm);
            for (const int each : shared) expect(each == turn, "not visible");
            allfold::barrier(comm);
        }
    });
    SUCCEED();
}
