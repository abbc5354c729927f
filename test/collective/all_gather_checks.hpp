// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "allfold/collective/all_gather.hpp"
#include "allfold/data/partition.hpp"
#include "test/support/algorithms.hpp"
#include "test/support/guarded.hpp"
#include "test/support/oracle.hpp"
#include "test/support/problems.hpp"

/// @file
/// What all_gather must do on any communicator.

namespace test {

/// The result of all_gather: its block r is block r of rank r's operand.
template <class Algebra>
std::vector<typename Algebra::element> gathered(const problem<Algebra>& p, const allfold::partition& blocks) {
    std::vector<typename Algebra::element> all;
    for (int r = 0; r < p.ranks(); ++r) {
        const auto block = p.operand(r).subspan(blocks.offset(r), blocks.extent(r));
        all.insert(all.end(), block.begin(), block.end());
    }
    return all;
}

/// One call out of place and one in place, where a rank starts with just its own block.
template <class Comm, class Algebra, class... Options>
void check_all_gather(Comm& comm, const problem<Algebra>& p, const allfold::partition& blocks, const std::string& where,
                      const Options&... options) {
    const auto expected = gathered(p, blocks);
    const std::size_t first = blocks.offset(comm.rank()), count = blocks.extent(comm.rank());
    const auto block = p.operand(comm.rank()).subspan(first, count);
    guarded in(block, Algebra::margin());
    guarded out(p.size(), Algebra::margin());

    allfold::all_gather(comm, in.constant(), out.span(), options...);
    expect_equal(out.constant(), expected, where);
    expect_equal(in.constant(), block, where + ": the input has been written");
    expect(in.margins_are_untouched() && out.margins_are_untouched(), where + ": written outside of the operands");

    guarded x(p.size(), Algebra::margin());
    std::ranges::copy(block, x.span().subspan(first).begin());
    allfold::all_gather(comm, x.span(), options...);
    expect_equal(x.constant(), expected, where + ", in place");
    expect(x.margins_are_untouched(), where + ", in place: written outside of the operand");
}

/// Checks every algorithm and partition, in one window and in many.
template <class Comm, class Algebra>
void check_all_gather_with_all_algorithms(Comm& comm, const problem<Algebra>& p, const std::string& where) {
    for_each_algorithm(allfold::all_gather, comm, [&](const char* name, auto... algorithm) {
        int number = 0;
        for (const auto& blocks : partitions_of(p.size(), comm.size())) {
            const std::string here = where + ", partition " + std::to_string(number++) + ", " + name;
            check_all_gather(comm, p, blocks, here, blocks, algorithm...);
            check_all_gather(comm, p, blocks, here + ", in windows", blocks, algorithm..., narrow(p));
        }
    });
}

}  // namespace test
