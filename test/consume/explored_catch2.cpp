// SPDX-License-Identifier: BSL-1.0
#include <allfold/algebra/arithmetic.hpp>
#include <allfold/analysis/without_fault.hpp>
#include <allfold/collective/all_reduce.hpp>

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif

/// @file
/// A user's test with Catch2, version 2 or 3.

TEST_CASE("all ranks get the sum, whatever comes first") {
    const auto program = [](allfold::explored_communicator& comm) {
        const double x = comm.rank();
        return allfold::all_reduce(comm, x, allfold::sum());
    };
    CHECK_THAT(program, allfold::explored_without_fault(3));
}
