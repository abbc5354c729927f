// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <span>
#include <string>

#include "allfold/collective/broadcast.hpp"
#include "allfold/engine/options.hpp"
#include "test/support/algorithms.hpp"
#include "test/support/guarded.hpp"
#include "test/support/oracle.hpp"
#include "test/support/problems.hpp"

/// @file
/// What broadcast must do on any communicator.

namespace test {

/// One call out of place, where only the root has an input, and one in place.
template <class Comm, class Algebra, class... Options>
void check_broadcast(Comm& comm, const problem<Algebra>& p, int root, const std::string& where,
                     const Options&... options) {
    const auto operand = p.operand(root);
    const bool is_root = comm.rank() == root;
    guarded in(is_root ? operand : std::span<const typename Algebra::element>(), Algebra::margin());
    guarded out(p.size(), Algebra::margin());

    allfold::broadcast(comm, in.constant(), out.span(), allfold::root{root}, options...);
    expect_equal(out.constant(), operand, where);
    if (is_root) expect_equal(in.constant(), operand, where + ": the input has been written");
    expect(in.margins_are_untouched() && out.margins_are_untouched(), where + ": written outside of the operands");

    guarded x(p.operand(comm.rank()), Algebra::margin());
    allfold::broadcast(comm, x.span(), allfold::root{root}, options...);
    expect_equal(x.constant(), operand, where + ", in place");
    expect(x.margins_are_untouched(), where + ", in place: written outside of the operand");
}

/// Checks every algorithm and root, in one window and in many.
template <class Comm, class Algebra>
void check_broadcast_with_all_algorithms(Comm& comm, const problem<Algebra>& p, const std::string& where) {
    for_each_algorithm(allfold::broadcast, comm.size(), [&](const char* name, auto... algorithm) {
        for (const int root : roots_of(comm.size(), p.size())) {
            const std::string here = where + ", root " + std::to_string(root) + ", " + name;
            check_broadcast(comm, p, root, here, algorithm...);
            check_broadcast(comm, p, root, here + ", in windows", algorithm..., narrow(p));
        }
    });
}

}  // namespace test
