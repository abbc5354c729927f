// SPDX-License-Identifier: BSL-1.0
#include <cstdio>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/reduce.hpp"
#include "allfold/transport/mpi.hpp"

/// @file
/// A tool that counts calls of MPI sees those of allfold, or none of them if allfold calls MPI by its PMPI names.

namespace {
int counted = 0;
}  // namespace

extern "C" {
int MPI_Isend(const void* from, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
    ++counted;
    return PMPI_Isend(from, count, type, to, tag, comm, request);
}
int MPI_Irecv(void* to, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
    ++counted;
    return PMPI_Irecv(to, count, type, from, tag, comm, request);
}
#if MPI_VERSION >= 4
int MPI_Isend_c(const void* from, MPI_Count count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                MPI_Request* request) {
    ++counted;
    return PMPI_Isend_c(from, count, type, to, tag, comm, request);
}
int MPI_Irecv_c(void* to, MPI_Count count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
    ++counted;
    return PMPI_Irecv_c(to, count, type, from, tag, comm, request);
}
#endif
int MPI_Init_thread(int* count, char*** arguments, int wanted, int* level) {
    ++counted;
    return PMPI_Init_thread(count, arguments, wanted, level);
}
int MPI_Comm_dup(MPI_Comm of, MPI_Comm* made) {
    ++counted;
    return PMPI_Comm_dup(of, made);
}
int MPI_Reduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
    ++counted;
    return PMPI_Reduce(from, to, count, type, op, root, comm);
}
}

int main() {
    const int failed = allfold::mpi::run([](auto& comm) {
        for (const std::size_t n : {1U, 100000U}) {
            std::vector<double> x(n, 1.0);
            allfold::all_reduce(comm, x, allfold::sum());
            allfold::reduce(comm, x, allfold::sum(), allfold::delegate());
        }
    });
    std::printf("%s\n", counted == 0 ? "no call was seen" : "calls were seen");
    return failed;
}
