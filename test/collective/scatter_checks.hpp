// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "allfold/collective/scatter.hpp"
#include "allfold/data/partition.hpp"
#include "test/support/algorithms.hpp"
#include "test/support/guarded.hpp"
#include "test/support/oracle.hpp"
#include "test/support/problems.hpp"

/// @file
/// What scatter must do on any communicator.

namespace test {

/// One call out of place, where only the root has an input, and one in place, where only the root has the whole.
template <class Comm, class Algebra, class... Options>
void check_scatter(Comm& comm, const problem<Algebra>& p, int root, const allfold::partition& blocks,
                   const std::string& where, const Options&... options) {
    using element = typename Algebra::element;
    const bool is_root = comm.rank() == root;
    const std::size_t first = blocks.offset(comm.rank()), count = blocks.extent(comm.rank());
    const std::span<const element> whole = p.operand(root), block = whole.subspan(first, count);
    guarded in(is_root ? whole : whole.first(0), Algebra::margin());
    guarded out(count, Algebra::margin());

    allfold::scatter(comm, in.constant(), out.span(), allfold::root{root}, options...);
    expect_equal(out.constant(), block, where);
    if (is_root) expect_equal(in.constant(), whole, where + ": the input has been written");
    expect(in.margins_are_untouched() && out.margins_are_untouched(), where + ": written outside of the operands");

    const std::vector<element> nothing(count);
    guarded x(is_root ? whole : std::span(nothing), Algebra::margin());
    allfold::scatter(comm, x.span(), allfold::root{root}, options...);
    expect_equal(x.constant(), is_root ? whole : block, where + ", in place");
    expect(x.margins_are_untouched(), where + ", in place: written outside of the operand");
}

/// Checks every algorithm, root and partition, in one window and in many.
template <class Comm, class Algebra>
void check_scatter_with_all_algorithms(Comm& comm, const problem<Algebra>& p, const std::string& where) {
    for_each_algorithm(allfold::scatter, comm.size(), [&](const char* name, auto... algorithm) {
        for (const int root : roots_of(comm.size(), p.size())) {
            int number = 0;
            for (const auto& blocks : partitions_of(p.size(), comm.size())) {
                const std::string here =
                    where + ", root " + std::to_string(root) + ", partition " + std::to_string(number++) + ", " + name;
                check_scatter(comm, p, root, blocks, here, blocks, algorithm...);
                check_scatter(comm, p, root, blocks, here + ", in windows", blocks, algorithm..., narrow(p));
            }
        }
    });
}

}  // namespace test
