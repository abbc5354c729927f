// SPDX-License-Identifier: BSL-1.0
#include <mpi.h>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "allfold/allfold.hpp"
#include "test/mpi/support/job.hpp"
#include "test/support/catch.hpp"

/// @file
/// How often MPI is called: this program interposes between allfold and MPI, as a profiler does.

namespace {

struct {
    long sends = 0, receives = 0, lengths = 0;
} calls;

/// Counts of the calls that ranks make together.
struct collective_calls {
    int duplicates = 0, groups = 0, barriers = 0, gathers = 0, others = 0;
    friend bool operator==(const collective_calls&, const collective_calls&) = default;
} collectives;

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
int MPI_Isend(const void* from, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
    if (to != MPI_PROC_NULL) ++calls.sends;
    return PMPI_Isend(from, count, type, to, tag, comm, request);
}
int MPI_Comm_dup(MPI_Comm of, MPI_Comm* made) {
    ++collectives.duplicates;
    return PMPI_Comm_dup(of, made);
}
int MPI_Comm_create_group(MPI_Comm of, MPI_Group group, int tag, MPI_Comm* made) {
    ++collectives.groups;
    return PMPI_Comm_create_group(of, group, tag, made);
}
int MPI_Comm_split(MPI_Comm of, int color, int key, MPI_Comm* made) {
    ++collectives.others;
    return PMPI_Comm_split(of, color, key, made);
}
int MPI_Comm_split_type(MPI_Comm of, int type, int key, MPI_Info info, MPI_Comm* made) {
    ++collectives.others;
    return PMPI_Comm_split_type(of, type, key, info, made);
}
int MPI_Comm_free(MPI_Comm* comm) {
    ++collectives.others;
    return PMPI_Comm_free(comm);
}
int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request) {
    ++collectives.barriers;
    return PMPI_Ibarrier(comm, request);
}
int MPI_Iallgather(const void* from, int sent, MPI_Datatype what, void* to, int each, MPI_Datatype type, MPI_Comm comm,
                   MPI_Request* request) {
    ++collectives.gathers;
    return PMPI_Iallgather(from, sent, what, to, each, type, comm, request);
}
int MPI_Allreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    ++collectives.others;
    return PMPI_Allreduce(from, to, count, type, op, comm);
}
#if MPI_VERSION >= 4
int MPI_Get_count_c(const MPI_Status* status, MPI_Datatype type, MPI_Count* count) {
    ++calls.lengths;
    return PMPI_Get_count_c(status, type, count);
}
int MPI_Isend_c(const void* from, MPI_Count count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                MPI_Request* request) {
    if (to != MPI_PROC_NULL) ++calls.sends;
    return PMPI_Isend_c(from, count, type, to, tag, comm, request);
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
        // If other programs run, a rank may be late, and then the engine takes over.
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

TEST_CASE(
    "to make a communicator takes a duplicate and one small collective, and a team of it nothing but for the first") {
    using allfold::mpi::communicator;
    const watchdog watch("counted collectives");
    MPI_Comm fresh = MPI_COMM_NULL, fresh_too = MPI_COMM_NULL, alike = MPI_COMM_NULL;
    PMPI_Comm_split(MPI_COMM_WORLD, 0, 0, &fresh);
    PMPI_Comm_split(MPI_COMM_WORLD, 0, 0, &fresh_too);
    const auto count = [](auto make) {
        collectives = {};
        make();
        return std::exchange(collectives, {});
    };
    {
        std::optional<communicator> first, second, third, given;
        CHECK((count([&] { first.emplace(fresh); }) == collective_calls{.duplicates = 1, .gathers = 1}));
        CHECK(first->node().ranks == first->size());
        CHECK(first->node().processors > 0);
        CHECK((count([&] { second.emplace(fresh); }) == collective_calls{.duplicates = 1, .barriers = 1}));
        CHECK(second->node() == first->node());
        PMPI_Comm_dup(fresh, &alike);
        CHECK((count([&] { third.emplace(alike, allfold::mpi::borrow); }) == collective_calls{.barriers = 1}));
        CHECK(third->node() == first->node());
        const auto make = [&] { given.emplace(fresh_too, allfold::mpi::duplicate, first->tuning(), first->node()); };
        CHECK((count(make) == collective_calls{.duplicates = 1, .barriers = 1}));
        allfold::team<communicator> all;
        const auto form = [&] { all = allfold::subset(*first, allfold::rank_list::strided(0, first->size())); };
        CHECK(count(form) == collective_calls{.duplicates = 1});
        int x = 1;
        allfold::all_reduce(*all, x, allfold::sum());
        CHECK(x == first->size());
        calls = {};
        for (int next = 0; next < 5; ++next) CHECK(count(form) == collective_calls{});
        CHECK(calls.sends == 0);
    }
    PMPI_Comm_free(&alike);
    PMPI_Comm_free(&fresh_too);
    PMPI_Comm_free(&fresh);
}
