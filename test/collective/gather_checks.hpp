// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <span>
#include <string>

#include "allfold/collective/gather.hpp"
#include "allfold/data/partition.hpp"
#include "test/collective/all_gather_checks.hpp"
#include "test/support/algorithms.hpp"
#include "test/support/guarded.hpp"
#include "test/support/oracle.hpp"
#include "test/support/problems.hpp"

/// @file
/// What gather must do on any communicator.

namespace test {

/// One call out of place, where only the root has an output, and one in place, where only the root has the whole.
template <class Comm, class Algebra, class... Options>
void check_gather(Comm& comm, const problem<Algebra>& p, int root, const allfold::partition& blocks,
                  const std::string& where, const Options&... options) {
    const auto expected = gathered(p, blocks);
    const bool is_root = comm.rank() == root;
    const std::size_t first = blocks.offset(comm.rank()), count = blocks.extent(comm.rank());
    const auto block = p.operand(comm.rank()).subspan(first, count);
    guarded in(block, Algebra::margin());
    guarded out(is_root ? p.size() : 0, Algebra::margin());

    allfold::gather(comm, in.constant(), out.span(), allfold::root{root}, options...);
    if (is_root) expect_equal(out.constant(), expected, where);
    expect_equal(in.constant(), block, where + ": the input has been written");
    expect(in.margins_are_untouched() && out.margins_are_untouched(), where + ": written outside of the operands");

    guarded x(is_root ? p.size() : count, Algebra::margin());
    std::ranges::copy(block, is_root ? x.span().subspan(first).begin() : x.span().begin());
    allfold::gather(comm, x.span(), allfold::root{root}, options...);
    if (is_root)
        expect_equal(x.constant(), expected, where + ", in place");
    else
        expect_equal(x.constant(), block, where + ": the block of another rank than the root has been written");
    expect(x.margins_are_untouched(), where + ", in place: written outside of the operand");
}

/// Checks every algorithm, root and partition, in one window and in many.
template <class Comm, class Algebra>
void check_gather_with_all_algorithms(Comm& comm, const problem<Algebra>& p, const std::string& where) {
    for_each_algorithm(allfold::gather, comm.size(), [&](const char* name, auto... algorithm) {
        for (const int root : roots_of(comm.size(), p.size())) {
            int number = 0;
            for (const auto& blocks : partitions_of(p.size(), comm.size())) {
                const std::string here =
                    where + ", root " + std::to_string(root) + ", partition " + std::to_string(number++) + ", " + name;
                check_gather(comm, p, root, blocks, here, blocks, algorithm...);
                check_gather(comm, p, root, blocks, here + ", in windows", blocks, algorithm..., narrow(p));
            }
        }
    });
}

}  // namespace test
