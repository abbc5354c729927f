// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <array>
#include <cstddef>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/analysis/explore.hpp"
#include "allfold/analysis/here.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/barrier.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/message.hpp"

/// @file
/// Programs with a bug that shows only in some orders of arrival, or that makes them hang, and their corrected twins.

namespace examples {

using allfold::explored_communicator;

/// A barrier that one branch skips.
inline void skipping_a_barrier(explored_communicator& comm, bool is_fixed) {
    double x = comm.rank();
    x = allfold::all_reduce(comm, x, allfold::sum());
    if (comm.rank() == 2 && !is_fixed) return;  // nothing more to do, thought its author
    allfold::barrier(comm);
}

/// Two sums in flight; the one that completes first is folded first, and the order matters.
inline double in_order_of_completion(explored_communicator& comm, bool is_fixed) {
    std::array<double, 1> small{0.25}, large{1 << 20};
    std::array both{allfold::all_reduce.start(comm, small, allfold::sum()),
                    allfold::all_reduce.start(comm, large, allfold::sum())};
    double result = 1;
    for (int turn = 0; turn < 2; ++turn) {
        const auto done = is_fixed ? static_cast<std::size_t>(turn) : allfold::wait_any(both);
        both[done].wait();
        result = result / 2 + (done == 0 ? small[0] : large[0]);
    }
    return result;
}

/// Neighbours first send to each other: only memory that holds messages prevents a deadlock.
inline int head_to_head(explored_communicator& comm, bool is_fixed) {
    using allfold::from, allfold::to;
    const int other = 1 - comm.rank();
    int x = comm.rank();
    if (is_fixed) {
        allfold::exchange(comm, x, to{other}, from{other});
    } else {
        allfold::send(allfold::here(comm), comm.rank(), to{other});
        allfold::receive(comm, x, from{other});
    }
    return x;
}

/// Rank 0 adds up what all others send in each of two phases: in the first phase it may take a message that belongs to
/// the second.
inline std::array<int, 2> in_phases(explored_communicator& comm, bool is_fixed) {
    std::array<int, 2> sums{};
    for (int phase = 0; phase < 2; ++phase) {
        const allfold::tag under{is_fixed ? phase : 0};
        if (comm.rank() != 0) allfold::send(comm, 10 * phase + 1, allfold::to{0}, under);
        for (int i = 1; comm.rank() == 0 && i < comm.size(); ++i) {
            int x = 0;
            allfold::receive(comm, x, allfold::from{allfold::any}, under);
            sums[static_cast<std::size_t>(phase)] += x;
        }
    }
    return sums;
}

/// One branch forgets to receive what its neighbour has sent.
inline void forgetting_to_receive(explored_communicator& comm, bool is_fixed) {
    int x = 0;
    if (comm.rank() == 1) allfold::send(comm, 5, allfold::to{0});
    if (comm.rank() == 0 && is_fixed) allfold::receive(comm, x, allfold::from{1});
    allfold::barrier(comm);
}

/// The data of a send is overwritten before the send is done.
inline int forgetting_to_wait(explored_communicator& comm, bool is_fixed) {
    const int other = 1 - comm.rank();
    int x = comm.rank(), from_there = 0;
    allfold::operation sent = allfold::send.start(comm, x, allfold::to{other});
    allfold::receive(comm, from_there, allfold::from{other});
    if (is_fixed) sent.wait();
    x = 10 + from_there;
    sent.wait();
    return x;
}

}  // namespace examples
