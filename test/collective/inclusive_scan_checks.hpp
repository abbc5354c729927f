// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <string>

#include "allfold/collective/inclusive_scan.hpp"
#include "test/support/algorithms.hpp"
#include "test/support/guarded.hpp"
#include "test/support/oracle.hpp"
#include "test/support/problems.hpp"

/// @file
/// What inclusive_scan must do on any communicator.

namespace test {

/// One call out of place and one in place.
template <class Comm, class Algebra, class... Options>
void check_inclusive_scan(Comm& comm, const problem<Algebra>& p, const std::string& where, const Options&... options) {
    const auto operand = p.operand(comm.rank());
    guarded in(operand, Algebra::margin());
    guarded out(p.size(), Algebra::margin());

    allfold::inclusive_scan(comm, in.constant(), out.span(), p.op, options...);
    expect_same<Algebra>(out.constant(), p.prefix(comm.rank()), where);
    expect_equal(in.constant(), operand, where + ": the input has been written");
    expect(in.margins_are_untouched() && out.margins_are_untouched(), where + ": written outside of the operands");

    allfold::inclusive_scan(comm, in.span(), p.op, options...);
    expect_equal(in.constant(), out.constant(), where + ": other bits in place than out of place");
    expect(in.margins_are_untouched(), where + ", in place: written outside of the operand");
}

/// Checks every algorithm, in one window and in many.
template <class Comm, class Algebra>
void check_inclusive_scan_with_all_algorithms(Comm& comm, const problem<Algebra>& p, const std::string& where) {
    for_each_algorithm<1>(allfold::inclusive_scan, comm.size(), [&](const char* name, auto... algorithm) {
        check_inclusive_scan(comm, p, where + ", " + name, algorithm...);
        check_inclusive_scan(comm, p, where + ", in windows, " + name, algorithm..., narrow(p));
    });
}

}  // namespace test
