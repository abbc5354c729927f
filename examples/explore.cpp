// SPDX-License-Identifier: BSL-1.0
#include "allfold/analysis/explore.hpp"

#include <array>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <string>
#include <unistd.h>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/analysis/draw_finding.hpp"
#include "allfold/analysis/here.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/barrier.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/message.hpp"

/// @file
/// Programs with a mistake that shows in some orders of arrival only, or hangs, and their mended twins. Each is called
/// for all orders that there are; what is found is printed, in colour on a terminal, and drawn where a folder for the
/// pictures is given.

namespace {

using allfold::explored_communicator;

/// A barrier that one branch skips.
void skipping_a_barrier(explored_communicator& comm) {
    double x = comm.rank();
    x = allfold::all_reduce(comm, x, allfold::sum());
    if (comm.rank() == 2) return;  // nothing more to do, thinks its author
    allfold::barrier(comm);
}
void keeping_the_barrier(explored_communicator& comm) {
    double x = comm.rank();
    x = allfold::all_reduce(comm, x, allfold::sum());
    allfold::barrier(comm);
}

/// Two sums in flight; the one that is done first is folded first, in a way in which that matters.
double in_order_of_completion(explored_communicator& comm, bool fixed) {
    std::array<double, 1> small{0.25}, large{1 << 20};
    std::array both{allfold::all_reduce.start(comm, small, allfold::sum()),
                    allfold::all_reduce.start(comm, large, allfold::sum())};
    double result = 1;
    for (int turn = 0; turn < 2; ++turn) {
        const auto done = fixed ? static_cast<std::size_t>(turn) : allfold::wait_any(both);
        both[done].wait();
        result = result / 2 + (done == 0 ? small[0] : large[0]);
    }
    return result;
}

/// Neighbours send to each other first: only memory that holds messages saves it.
int head_to_head(explored_communicator& comm, bool fixed) {
    using allfold::from, allfold::to;
    const int other = 1 - comm.rank();
    int x = comm.rank();
    if (fixed) {
        allfold::exchange(comm, x, to{other}, from{other});
    } else {
        allfold::send(allfold::here(comm), comm.rank(), to{other});
        allfold::receive(comm, x, from{other});
    }
    return x;
}

/// Rank 0 adds up what all others send in each of two phases: it may take in the first one what belongs to the second.
std::array<int, 2> in_phases(explored_communicator& comm, bool fixed) {
    std::array<int, 2> sums{};
    for (int phase = 0; phase < 2; ++phase) {
        const allfold::tag under{fixed ? phase : 0};
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
void forgetting_to_receive(explored_communicator& comm, bool fixed) {
    int x = 0;
    if (comm.rank() == 1) allfold::send(comm, 5, allfold::to{0});
    if (comm.rank() == 0 && fixed) allfold::receive(comm, x, allfold::from{1});
    allfold::barrier(comm);
}

const char* folder_of_pictures = nullptr;

bool shows(const char* name, const allfold::exploration& found, bool expected) {
    const bool has_colour = isatty(STDOUT_FILENO) != 0;
    std::printf("--- %s\n%s%s%s", name,
                !has_colour  ? ""
                : found.ok() ? "\033[32m"
                             : "\033[31m",
                explain(found).c_str(), has_colour ? "\033[0m" : "");
    static int pictures = 0;
    if (!found.ok() && folder_of_pictures != nullptr) {
        const std::string file = std::string(folder_of_pictures) + "/fault" + std::to_string(++pictures) + ".svg";
        std::ofstream(file) << allfold::draw(found);
        std::printf("    picture: %s\n", file.c_str());
    }
    std::puts("");
    return found.ok() == expected && found.complete();
}

}  // namespace

int main(int count, char** arguments) {
    if (count > 1) folder_of_pictures = arguments[1];
    bool as_expected = shows("a barrier that one branch skips", allfold::explore(3, skipping_a_barrier), false);
    as_expected &= shows("mended", allfold::explore(3, keeping_the_barrier), true);
    const auto first_come = [](explored_communicator& comm) { return in_order_of_completion(comm, false); };
    const auto in_turn = [](explored_communicator& comm) { return in_order_of_completion(comm, true); };
    const auto found = allfold::explore(3, first_come);
    as_expected &= shows("a result that depends on what is done first", found, false);
    as_expected &= !allfold::replay(3, first_come, found.first().schedule).ok();  // this execution, under a debugger
    as_expected &= shows("mended", allfold::explore(3, in_turn), true);
    const auto shows_both = [&](const char* name, int ranks, auto program) {
        as_expected &= shows(name, allfold::explore(ranks, [&](auto& comm) { return program(comm, false); }), false);
        as_expected &= shows("mended", allfold::explore(ranks, [&](auto& comm) { return program(comm, true); }), true);
    };
    shows_both("sends head to head", 2, head_to_head);
    shows_both("a receive from any rank that takes a message of the next phase", 3, in_phases);
    shows_both("a message that nobody receives", 2, forgetting_to_receive);

    // How far it has got, where that takes long: here a line for every 1000 executions.
    allfold::explore_options options;
    options.watch = [](const allfold::exploring& so_far) {
        if (so_far.executions % 1000 == 0)
            std::fprintf(stderr, "\r%llu executions, %.0f a second, %zu steps, %zu of them still with other choices ",
                         static_cast<unsigned long long>(so_far.executions), so_far.executions_per_second(),
                         so_far.steps, so_far.open);
        return true;
    };
    const auto many = [](explored_communicator& comm) {
        int sum = 0, x = 0;
        for (int i = 0; i < 2 && comm.rank() != 0; ++i) allfold::send(comm, 1, allfold::to{0});
        for (int i = 0; i < 2 * (comm.size() - 1) && comm.rank() == 0; ++i, sum += x)
            allfold::receive(comm, x, allfold::from{allfold::any});
        return sum;
    };
    as_expected &= shows("\nlong enough to be watched", allfold::explore(5, many, options), true);
    return as_expected ? 0 : 1;
}
