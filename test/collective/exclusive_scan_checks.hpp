// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "allfold/algebra/operator.hpp"
#include "allfold/collective/exclusive_scan.hpp"
#include "test/support/algorithms.hpp"
#include "test/support/guarded.hpp"
#include "test/support/oracle.hpp"
#include "test/support/problems.hpp"

/// @file
/// What exclusive_scan must do on any communicator.

namespace test {

/// The fold of all operands below `rank`; at rank 0 the identity if there is one, otherwise what was there before.
template <class Algebra, class T>
std::vector<T> expected_at(int rank, const problem<Algebra>& p, std::span<const T> before) {
    if (rank > 0) {
        const auto fold = p.prefix(rank - 1);
        return {fold.begin(), fold.end()};
    }
    if constexpr (allfold::operator_with_identity<typename problem<Algebra>::operation, T>)
        return std::vector<T>(p.size(), allfold::identity_of<T>(p.op));
    else
        return {before.begin(), before.end()};
}

/// One call out of place and one in place.
template <class Comm, class Algebra, class... Options>
void check_exclusive_scan(Comm& comm, const problem<Algebra>& p, const std::string& where, const Options&... options) {
    const auto operand = p.operand(comm.rank());
    guarded in(operand, Algebra::margin());
    guarded out(p.size(), Algebra::margin());

    const auto expected = expected_at(comm.rank(), p, out.constant());
    allfold::exclusive_scan(comm, in.constant(), out.span(), p.op, options...);
    expect_same<Algebra>(out.constant(), expected, where);
    expect_equal(in.constant(), operand, where + ": the input has been written");
    expect(in.margins_are_untouched() && out.margins_are_untouched(), where + ": written outside of the operands");

    const auto expected_in_place = expected_at(comm.rank(), p, operand);
    allfold::exclusive_scan(comm, in.span(), p.op, options...);
    expect_same<Algebra>(in.constant(), expected_in_place, where + ", in place");
    if (comm.rank() > 0) expect_equal(in.constant(), out.constant(), where + ": other bits in place than out of place");
    expect(in.margins_are_untouched(), where + ", in place: written outside of the operand");
}

/// Checks every algorithm, in one window and in many.
template <class Comm, class Algebra>
void check_exclusive_scan_with_all_algorithms(Comm& comm, const problem<Algebra>& p, const std::string& where) {
    for_each_algorithm<1>(allfold::exclusive_scan, comm.size(), [&](const char* name, auto... algorithm) {
        check_exclusive_scan(comm, p, where + ", " + name, algorithm...);
        check_exclusive_scan(comm, p, where + ", in windows, " + name, algorithm..., narrow(p));
    });
}

}  // namespace test
