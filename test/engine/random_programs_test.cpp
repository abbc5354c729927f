// SPDX-License-Identifier: BSL-1.0
#include <array>
#include <random>
#include <string>

#include "allfold/transport/hierarchy.hpp"
#include "allfold/transport/rank_list.hpp"
#include "allfold/transport/team.hpp"
#include "allfold/transport/thread.hpp"
#include "test/support/catch.hpp"
#include "test/support/random_program.hpp"
#include "test/support/ranks.hpp"
#include "test/support/sanitized.hpp"
#include "test/support/watchdog.hpp"

/// @file
/// There is no deadline that could hide a hang; the watchdog reports the seed.

using namespace test;

namespace {

void run_program(unsigned seed, int size, const allfold::thread_tuning& tuning) {
    const watchdog watch("random program " + std::to_string(seed) + " of " + std::to_string(size) + " ranks");
    INFO("seed " << seed << ", " << size << " ranks");
    allfold::thread_world second(size, tuning);
    CHECK_NOTHROW(allfold::run(
        size,
        [&](allfold::thread_communicator& a) {
            allfold::thread_communicator b = second.communicator(a.rank());
            random_programs::runner(seed, a, b).run();
        },
        tuning));
}

constexpr unsigned programs = fewer_if_sanitized(40, 4);

}  // namespace

TEST_CASE("random programs give what a sequential one gives") {
    for (const int size : {1, 2, 3, 5})
        for (unsigned seed = 1; seed <= programs; ++seed)
            run_program(seed, size,
                        {.spins = seed % 2 ? 0 : 2000,
                         .yields = seed % 4 < 2 ? 200 : 1,
                         .notice_readers = seed % 3 == 0 ? 1 : 16});
}

TEST_CASE("random programs of two ranks give what a sequential one gives, with slots of every size") {
    for (unsigned seed = 1000; seed < 1000 + programs; ++seed)
        run_program(seed, 2,
                    std::array{impatient, noticing, allfold::thread_tuning{.eager_bytes = 1024}, scattered}[seed % 4]);
}

TEST_CASE("random programs of teams of a hierarchy give what a sequential one gives") {
    for (unsigned seed = 2000; seed < 2000 + fewer_if_sanitized(12U, 4U); ++seed) {
        const int groups = 1 + static_cast<int>(seed % 3), threads = 1 + static_cast<int>(seed / 3 % 3);
        INFO("seed " << seed << ", " << groups << " groups of " << threads);
        const auto outcomes = outcomes_on_ranks(
            groups,
            [&](auto& across) {
                allfold::run(across, threads, [&](auto& comm) {
                    const auto all = allfold::rank_list::strided(0, comm.size());
                    const auto a = subset(comm, all), b = subset(comm, all);
                    random_programs::runner(seed, *a, *b).run();
                });
            },
            seed % 2 ? impatient : allfold::thread_tuning());
        for (const outcome& each : outcomes) CHECK(each.text == "");
    }
}

TEST_CASE("a random program that was never run before gives what a sequential one gives") {
    const auto seed = std::random_device{}();
    run_program(seed, 2, {});
    run_program(seed, 4, {});
    run_program(seed, 4, noticing);
}
