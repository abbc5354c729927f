// SPDX-License-Identifier: BSL-1.0

/// @file
/// What can be tried only once per process: use before MPI begins, after it has ended, and with too low a thread level,
/// and a rank that throws in `mpi::run`. Prints the error messages; ctest compares them.

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

#include "allfold/allfold.hpp"
#include "allfold/message.hpp"
#include "allfold/transport/hierarchy.hpp"
#include "allfold/transport/mpi.hpp"

namespace {

void print_refusal() {
    try {
        const allfold::mpi::communicator comm(MPI_COMM_WORLD);
        std::puts("not refused");
    } catch (const allfold::error& e) {
        std::puts(e.what());
    }
}

void before() {
    if (allfold::mpi::initialized() || allfold::mpi::finalized())
        std::puts("begun already");
    else
        print_refusal();
}

void after() {
    MPI_Init(nullptr, nullptr);
    MPI_Finalize();
    if (allfold::mpi::initialized() && allfold::mpi::finalized())
        print_refusal();
    else
        std::puts("not over");
}

void funneled() {
    int level = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level);
    {
        const allfold::mpi::communicator comm(MPI_COMM_WORLD);
    }  // the main thread is allowed to
    if (level == MPI_THREAD_FUNNELED)
        std::thread(print_refusal).join();
    else
        std::puts("MPI_THREAD_FUNNELED, but this is not its main thread: not run, for this MPI gives more");
    MPI_Finalize();
}

void single() {
    int level = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SINGLE, &level);
    try {
        allfold::mpi::communicator comm(MPI_COMM_WORLD);
        allfold::run(comm, 2, [](auto&) {});
        std::puts(level == MPI_THREAD_SINGLE ? "not refused" : "MPI_THREAD_SINGLE: not run, for this MPI gives more");
    } catch (const allfold::error& e) {
        std::puts(e.what());
    }
    MPI_Finalize();
}

/// Rank 1 throws while the others wait for it.
int thrown() {
    return allfold::mpi::run([](auto& comm) {
        if (comm.rank() == 1) throw std::runtime_error("boom");
        for (std::vector<int> x(100);;) allfold::all_reduce(comm, x, allfold::sum());
    });
}

/// Ends after MPI with something in flight, as a global object does.
void outlives() {
    MPI_Init(nullptr, nullptr);
    static int x = 0;
    static std::optional<allfold::operation> in_flight;
    static std::optional<allfold::mpi::communicator> comm(std::in_place, MPI_COMM_WORLD);
    in_flight = allfold::receive.start(*comm, x, allfold::from{(comm->rank() + 1) % comm->size()});
    MPI_Finalize();
}

int sum() {
    return allfold::mpi::run([](auto& comm) {
        int one = 1;
        allfold::all_reduce(comm, one, allfold::sum());
        if (one != comm.size()) throw std::runtime_error("the sum is wrong");
    });
}

}  // namespace

int main(int, char** arguments) {
    const std::string_view what = arguments[1];
    if (what == "before") before();
    if (what == "after") after();
    if (what == "funneled") funneled();
    if (what == "single") single();
    if (what == "outlives") outlives();
    if (what == "thrown") return thrown();
    if (what == "sum") return sum();
    return EXIT_SUCCESS;
}
