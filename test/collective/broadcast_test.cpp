// SPDX-License-Identifier: BSL-1.0
#include "allfold/collective/broadcast.hpp"

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
    expect(!is_root || std::ranges::equal(in.constant(), operand), where + ": the input has been written");
    expect(in.margins_are_untouched() && out.margins_are_untouched(), where + ": written outside of the operands");

    guarded x(p.operand(comm.rank()), Algebra::margin());
    allfold::broadcast(comm, x.span(), allfold::root{root}, options...);
    expect_equal(x.constant(), operand, where + ", in place");
    expect(x.margins_are_untouched(), where + ", in place: written outside of the operand");
}

}  // namespace

TEMPLATE_TEST_CASE("broadcast gives every rank the operand of the root", "", words, matrices) {
    on_all_groups<TestType>([](auto& comm, const auto& p, const std::string& where) {
        for_each_algorithm<allfold::collective::broadcast>(comm.size(), [&](const char* name, auto... algorithm) {
            for (const int root : roots_of(comm.size())) {
                const std::string here = where + ", root " + std::to_string(root) + ", " + name;
                check_broadcast(comm, p, root, here, algorithm...);
                check_broadcast(comm, p, root, here + ", in windows", algorithm..., narrow(p));
            }
        });
    });
    SUCCEED();
}

TEST_CASE("broadcast works where ranks share no memory") {
    on_remote_groups<integers>([](auto& comm, const auto& p, const auto& where) {
        for (const int root : roots_of(comm.size())) check_broadcast(comm, p, root, where);
    });
    SUCCEED();
}
