// SPDX-License-Identifier: BSL-1.0
#include <cstddef>
#include <string>

#include "allfold/allfold.hpp"
#include "test/mpi/support/job.hpp"
#include "test/support/catch.hpp"
#include "test/support/random_call.hpp"

/// @file
/// Every collective on more ranks than other tests have: on the whole job, and on its first 12 and 13 ranks if it has
/// more.

using namespace test;
using namespace test::random_programs;

TEST_CASE("collectives of many processes give what is known of their operands") {
    const watchdog watch("many ranks");
    int turn = 0;
    kept_failure failure;
    for (const int first : {0, 12, 13}) {
        if (first >= ranks_of_job()) continue;
        auto& comm = shared_communicator({}, first);
        const int size = comm.size();
        const auto P = static_cast<std::size_t>(size);
        for (const std::size_t n : {std::size_t{0}, std::size_t{1}, P - 1, P, P + 1, 3000 * P})
            for (int what = 0; what < kinds; ++what) {
                if (++turn % 3 != 0) continue;  // all of them would take three times as long
                call next{static_cast<kind>(what), turn % size, n, turn};
                if (next.what == kind::all_to_all) next.n -= n % P;
                flight f(next, comm.rank(), size);
                f.issue([&](auto& collective, auto&&... args) { collective(comm, args...); });
                failure.try_to([&] { f.verify(std::to_string(size) + " ranks"); });
            }
        ++turn;  // others in the next group
    }
    failure.rethrow();
    SUCCEED();
}
