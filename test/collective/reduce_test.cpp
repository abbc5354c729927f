// SPDX-License-Identifier: BSL-1.0
#include "allfold/collective/reduce.hpp"

#include <span>
#include <string>

#include "test/support/algebras.hpp"
#include "test/support/algorithms.hpp"
#include "test/support/catch.hpp"
#include "test/support/groups.hpp"
#include "test/support/guarded.hpp"
#include "test/support/oracle.hpp"

using namespace test;

namespace {

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

template <class Algebra>
void check_with_all_algorithms(allfold::thread_communicator& comm, const problem<Algebra>& p,
                               const std::string& where) {
    for_each_algorithm<allfold::collective::reduce, problem<Algebra>::level>(
        comm.size(), [&](const char* name, auto... algorithm) {
            for (const int root : roots_of(comm.size())) {
                const std::string here = where + ", root " + std::to_string(root) + ", " + name;
                check_reduce(comm, p, root, here, algorithm...);
                check_reduce(comm, p, root, here + ", in windows", algorithm..., narrow(p));
            }
        });
}

}  // namespace

TEMPLATE_TEST_CASE("reduce gives the root the fold in rank order", "", words, matrices, floats) {
    on_all_groups<TestType>(
        [](auto& comm, const auto& p, const auto& where) { check_with_all_algorithms(comm, p, where); });
    SUCCEED();
}

TEMPLATE_TEST_CASE("reduce takes any operator", "", integers, maxima, residues) {
    on_all_groups<TestType>([](auto& comm, const auto& p, const auto& where) { check_reduce(comm, p, 0, where); });
    SUCCEED();
}

TEMPLATE_TEST_CASE("reduce keeps rank order where ranks share no memory", "", matrices, floats) {
    on_remote_groups<TestType>([](auto& comm, const auto& p, const auto& where) {
        for (const int root : roots_of(comm.size())) check_reduce(comm, p, root, where);
    });
    SUCCEED();
}
