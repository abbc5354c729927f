// SPDX-License-Identifier: BSL-1.0
#include <mpi.h>
#include <thread>
#include <vector>

#include "allfold/allfold.hpp"
#include "test/mpi/support/job.hpp"
#include "test/support/catch.hpp"

/// @file
/// How often MPI is called: this program stands between allfold and MPI as a profiler does.

namespace {

struct {
    long receives = 0, lengths = 0;
} calls;

}  // namespace

extern "C" {
int MPI_Get_count(const MPI_Status* status, MPI_Datatype type, int* count) {
    ++calls.lengths;
    return PMPI_Get_count(status, type, count);
}
int MPI_Irecv(void* to, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
    ++calls.receives;
    return PMPI_Irecv(to, count, type, from, tag, comm, request);
}
#if MPI_VERSION >= 4
int MPI_Get_count_c(const MPI_Status* status, MPI_Datatype type, MPI_Count* count) {
    ++calls.lengths;
    return PMPI_Get_count_c(status, type, count);
}
int MPI_Irecv_c(void* to, MPI_Count count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
    ++calls.receives;
    return PMPI_Irecv_c(to, count, type, from, tag, comm, request);
}
#endif
}

using namespace test;

TEST_CASE("a call that is made again asks MPI for one message, and not for its length") {
    const watchdog watch("counted calls");
    allfold::mpi::communicator comm(MPI_COMM_WORLD);
    if (comm.size() != 2 || std::thread::hardware_concurrency() < 2) {
        SUCCEED("two ranks that run at the same time");
        return;
    }
    constexpr int times = 200;
    std::vector<int> in(12, 1), out(12), all(24);
    const auto count = [&](auto call) {
        for (int warm = 0; warm < 3; ++warm) call();
        // Where other programs run a rank may come late, and then the engine takes over.
        long lengths = times;
        for (int batch = 0; batch < 30 && lengths > times / 2; ++batch) {
            calls = {};
            for (int turn = 0; turn < times; ++turn) call();
            CHECK(calls.receives == times);
            MPI_Allreduce(&calls.lengths, &lengths, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
        }
        CHECK(lengths <= times / 2);
    };
    count([&] { allfold::all_reduce(comm, in, out, allfold::sum()); });
    count([&] { allfold::all_gather(comm, in, all); });
    count([&] { allfold::reduce_scatter(comm, all, out, allfold::sum()); });
    count([&] { allfold::barrier(comm); });
}
