// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/barrier.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/engine/options.hpp"
#include "allfold/transport/communicator.hpp"
#include "test/support/oracle.hpp"

namespace test {

/// Calls, operations in flight and prepared ones, while the numbers of their lanes pass those that are not counted, and
/// return to 0; and a prepared operation that is as old as that, beside a new one with the lane that it had at first.
template <class Comm>
void check_lanes_that_wrap(Comm& comm, const std::string& where) {
    const int rank = comm.rank(), size = comm.size(), ranks = size * (size - 1) / 2;
    std::vector<int> called(40), started(1000), prepared(5), kept(300);
    const auto next_lane = [&] { return comm.open({}, 1) + 1; };
    const auto skip_to = [&](allfold::lane on) {  // in steps, since who is 2^31 lanes ahead seems to be behind
        constexpr allfold::lane step = 1U << 28;
        while (on - next_lane() > step) {
            comm.open({}, step);  // nobody uses these
            allfold::barrier(comm);
        }
        comm.open({}, on - next_lane());
    };
    const allfold::lane of_old = next_lane();
    auto old = allfold::all_reduce.prepare(comm, kept, allfold::sum());
    for (const allfold::lane soon : {0x3fffffe0U, 0xffffffe0U}) {
        skip_to(soon);
        auto again = allfold::all_reduce.prepare(comm, prepared, allfold::sum());
        for (int turn = 0; turn < 20; ++turn) {
            called.assign(40, turn);
            started.assign(1000, turn + rank);
            prepared.assign(5, rank - turn);
            kept.assign(300, turn - rank);
            auto first = allfold::all_reduce.start(comm, started, allfold::sum(), allfold::window{1600});
            again.start();
            old.start();
            allfold::all_reduce(comm, called, allfold::sum());
            if (rank % 2 == 0) first.wait();
            again.wait();
            first.wait();
            old.wait();
            const std::string here = where + ", turn " + std::to_string(turn) + " after " + std::to_string(soon);
            expect_equal(called, std::vector<int>(40, turn * size), here + ": called");
            expect_equal(started, std::vector<int>(1000, turn * size + ranks), here + ": started");
            expect_equal(prepared, std::vector<int>(5, ranks - turn * size), here + ": prepared");
            expect_equal(kept, std::vector<int>(300, turn * size - ranks), here + ": prepared long ago");
        }
        const allfold::lane uncounted = soon < allfold::detail::first_restart_lane ? 0x40000000U : 0;
        expect(next_lane() - soon - uncounted < 200, where + ": other lanes than expected");
    }
    skip_to(0x3fffffe0U);
    comm.open({}, 200);  // does not fit before those that are not counted
    allfold::barrier(comm);
    skip_to(of_old);
    kept.assign(300, rank);
    started.assign(1000, 2 * rank);
    if (rank % 2 == 0) old.start();
    auto beside = allfold::all_reduce.start(comm, started, allfold::sum());
    if (rank % 2 == 1) old.start();
    old.wait();
    beside.wait();
    expect_equal(kept, std::vector<int>(300, ranks), where + ": an old operation beside a new one");
    expect_equal(started, std::vector<int>(1000, 2 * ranks), where + ": a new operation beside an old one");
}

}  // namespace test
