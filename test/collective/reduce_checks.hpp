// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include "allfold/collective/reduce.hpp"
#include "allfold/engine/options.hpp"
#include "test/support/algorithms.hpp"
#include "test/support/guarded.hpp"
#include "test/support/oracle.hpp"
#include "test/support/problems.hpp"

/// @file
/// What reduce must do on any communicator.

namespace test {

/// One call out of place, where only the root has an output, and one in place.
template <class Comm, class Algebra, class... Options>
void check_reduce(Comm& comm, const problem<Algebra>& p, int root, const std::string& where,
                  const Options&... options) {
    const auto operand = p.operand(comm.rank());
    const bool is_root = comm.rank() == root;
    guarded in(operand, Algebra::margin());
    guarded out(is_root ? p.size() : 0, Algebra::margin());

    allfold::reduce(comm, in.constant(), out.span(), p.op, allfold::root{root}, options...);
    if (is_root) expect_same<Algebra>(out.constant(), p.total(), where);
    expect_equal(in.constant(), operand, where + ": the input has been written");
    expect(in.margins_are_untouched() && out.margins_are_untouched(), where + ": written outside of the operands");

    allfold::reduce(comm, in.span(), p.op, allfold::root{root}, options...);
    if (is_root)
        expect_equal(in.constant(), out.constant(), where + ": other bits in place than out of place");
    else
        expect_equal(in.constant(), operand, where + ": the operand of another rank than the root has been written");
    expect(in.margins_are_untouched(), where + ", in place: written outside of the operand");
}

/// Checks every algorithm and root, in one window and in many.
template <class Comm, class Algebra>
void check_reduce_with_all_algorithms(Comm& comm, const problem<Algebra>& p, const std::string& where) {
    for_each_algorithm<problem<Algebra>::level>(allfold::reduce, comm.size(), [&](const char* name, auto... algorithm) {
        for (const int root : roots_of(comm.size(), p.size())) {
            const std::string here = where + ", root " + std::to_string(root) + ", " + name;
            check_reduce(comm, p, root, here, algorithm...);
            check_reduce(comm, p, root, here + ", in windows", algorithm..., narrow(p));
        }
    });
}

}  // namespace test
