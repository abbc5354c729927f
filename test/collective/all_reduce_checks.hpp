// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "allfold/collective/all_reduce.hpp"
#include "test/support/algorithms.hpp"
#include "test/support/guarded.hpp"
#include "test/support/oracle.hpp"
#include "test/support/problems.hpp"

/// @file
/// What all_reduce must do on any communicator.

namespace test {

/// One call out of place and one in place. Returns the result.
template <class Comm, class Algebra, class... Options>
auto check_all_reduce(Comm& comm, const problem<Algebra>& p, const std::string& where, const Options&... options) {
    const auto operand = p.operand(comm.rank());
    guarded in(operand, Algebra::margin());
    guarded out(p.size(), Algebra::margin());

    allfold::all_reduce(comm, in.constant(), out.span(), p.op, options...);
    expect_same<Algebra>(out.constant(), p.total(), where);
    expect_equal(in.constant(), operand, where + ": the input has been written");
    expect(in.margins_are_untouched() && out.margins_are_untouched(), where + ": written outside of the operands");

    allfold::all_reduce(comm, in.span(), p.op, options...);
    expect_equal(in.constant(), out.constant(), where + ": other bits in place than out of place");
    expect(in.margins_are_untouched(), where + ", in place: written outside of the operand");
    return std::vector(out.span().begin(), out.span().end());
}

/// Checks every algorithm, in one window and in many.
template <class Comm, class Algebra>
void check_all_reduce_with_all_algorithms(Comm& comm, const problem<Algebra>& p, const std::string& where) {
    for_each_algorithm<problem<Algebra>::level>(
        allfold::all_reduce, comm.size(), [&](const char* name, auto... algorithm) {
            const std::string here = where + ", " + name;
            const auto result = check_all_reduce(comm, p, here, algorithm...);
            const auto in_windows = check_all_reduce(comm, p, here + ", in windows", algorithm..., narrow(p));
            expect_equal(in_windows, result, here + ": other bits in windows");
            if constexpr (!Algebra::exact) expect_agreement(comm, std::span(result), here);
        });
}

}  // namespace test
