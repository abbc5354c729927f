// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <string>

#include "allfold/collective/reduce_scatter.hpp"
#include "allfold/data/partition.hpp"
#include "test/support/algorithms.hpp"
#include "test/support/guarded.hpp"
#include "test/support/oracle.hpp"
#include "test/support/problems.hpp"

/// @file
/// What reduce_scatter must do on any communicator.

namespace test {

/// One call out of place and one in place, which leaves the other blocks undefined.
template <class Comm, class Algebra, class... Options>
void check_reduce_scatter(Comm& comm, const problem<Algebra>& p, const allfold::partition& blocks,
                          const std::string& where, const Options&... options) {
    const auto operand = p.operand(comm.rank());
    const std::size_t first = blocks.offset(comm.rank()), count = blocks.extent(comm.rank());
    guarded in(operand, Algebra::margin());
    guarded out(count, Algebra::margin());

    allfold::reduce_scatter(comm, in.constant(), out.span(), p.op, options...);
    expect_same<Algebra>(out.constant(), p.total().subspan(first, count), where);
    expect_equal(in.constant(), operand, where + ": the input has been written");
    expect(in.margins_are_untouched() && out.margins_are_untouched(), where + ": written outside of the operands");

    allfold::reduce_scatter(comm, in.span(), p.op, options...);
    expect_equal(in.constant().subspan(first, count), out.constant(),
                 where + ": other bits in place than out of place");
    expect(in.margins_are_untouched(), where + ", in place: written outside of the operand");
}

/// Checks every algorithm and partition, in one window and in many.
template <class Comm, class Algebra>
void check_reduce_scatter_with_all_algorithms(Comm& comm, const problem<Algebra>& p, const std::string& where) {
    for_each_algorithm<problem<Algebra>::level>(
        allfold::reduce_scatter, comm, [&](const char* name, auto... algorithm) {
            int number = 0;
            for (const auto& blocks : partitions_of(p.size(), comm.size())) {
                const std::string here = where + ", partition " + std::to_string(number++) + ", " + name;
                check_reduce_scatter(comm, p, blocks, here, blocks, algorithm...);
                check_reduce_scatter(comm, p, blocks, here + ", in windows", blocks, algorithm..., narrow(p));
            }
        });
}

}  // namespace test
