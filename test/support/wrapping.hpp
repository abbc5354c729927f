// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/engine/options.hpp"
#include "allfold/transport/communicator.hpp"
#include "test/support/oracle.hpp"

namespace test {

/// Calls, operations in flight and prepared ones, while the numbers of their lanes pass those that are reserved for
/// messages, and return to 0.
template <class Comm>
void check_lanes_that_wrap(Comm& comm, const std::string& where) {
    const int rank = comm.rank(), size = comm.size();
    std::vector<int> called(40), started(1000), prepared(5);
    for (const allfold::lane soon : {0x7fffffe0U, 0xffffffe0U}) {
        const allfold::lane next = comm.open({}, 1) + 1;
        comm.open({}, soon - next);  // nobody uses these
        auto again = allfold::all_reduce.prepare(comm, prepared, allfold::sum());
        for (int turn = 0; turn < 20; ++turn) {
            called.assign(40, turn);
            started.assign(1000, turn + rank);
            prepared.assign(5, rank - turn);
            auto first = allfold::all_reduce.start(comm, started, allfold::sum(), allfold::window{1600});
            again.start();
            allfold::all_reduce(comm, called, allfold::sum());
            if (rank % 2 == 0) first.wait();
            again.wait();
            first.wait();
            const int ranks = size * (size - 1) / 2;
            const std::string here = where + ", turn " + std::to_string(turn) + " after " + std::to_string(soon);
            expect_equal(called, std::vector<int>(40, turn * size), here + ": called");
            expect_equal(started, std::vector<int>(1000, turn * size + ranks), here + ": started");
            expect_equal(prepared, std::vector<int>(5, ranks - turn * size), here + ": prepared");
        }
        expect(comm.open({}, 1) - soon < 200, where + ": other lanes than expected");
    }
}

}  // namespace test
