// SPDX-License-Identifier: BSL-1.0
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/reduce.hpp"
#include "allfold/collective/reduce_scatter.hpp"
#include "allfold/schedule/canonical_tree.hpp"
#include "test/support/algebras.hpp"
#include "test/support/algorithms.hpp"
#include "test/support/catch.hpp"
#include "test/support/groups.hpp"
#include "test/support/oracle.hpp"
#include "test/support/problems.hpp"

using namespace test;
using allfold::order;

namespace {

/// The fold of element i over ranks [low, high), bracketed as the canonical tree.
float fold_tree(const problem<floats>& p, int low, int high, std::size_t i) {
    if (high - low == 1) return p.operand(low)[i];
    const int cut = allfold::canonical_cut(p.ranks(), low, high);
    return p.op(fold_tree(p, low, cut, i), fold_tree(p, cut, high, i));
}

std::vector<float> fold_tree(const problem<floats>& p) {
    std::vector<float> folds;
    for (std::size_t i = 0; i < p.size(); ++i) folds.push_back(fold_tree(p, 0, p.ranks(), i));
    return folds;
}

/// Calls check(comm, problem, its fold as the canonical tree, where) on all ranks of all groups.
template <class Check>
void on_all_groups_with_trees(Check check) {
    on_all_groups<floats>(
        [&](auto& comm, const auto& p, const std::string& where) { check(comm, p, fold_tree(p), where); });
}

template <class Comm, class... Options>
void check_all_reduce(Comm& comm, const problem<floats>& p, const std::vector<float>& tree, const std::string& where,
                      const Options&... options) {
    const auto in = p.operand(comm.rank());
    std::vector<float> out(p.size()), x(in.begin(), in.end());
    allfold::all_reduce(comm, in, out, p.op, order::tree, options...);
    expect_equal(out, tree, where);
    allfold::all_reduce(comm, x, p.op, order::tree, options...);
    expect_equal(x, tree, where + ", in place");
}

template <class Comm, class... Options>
void check_reduce(Comm& comm, const problem<floats>& p, const std::vector<float>& tree, const std::string& where,
                  const Options&... options) {
    for (const int root : roots_of(comm.size(), p.size())) {
        std::vector<float> out(p.size());
        allfold::reduce(comm, p.operand(comm.rank()), out, p.op, order::tree, allfold::root{root}, options...);
        if (comm.rank() == root) expect_equal(out, tree, where);
    }
}

template <class Comm, class... Options>
void check_reduce_scatter(Comm& comm, const problem<floats>& p, const std::vector<float>& tree,
                          const std::string& where, const Options&... options) {
    for (const auto& blocks : partitions_of(p.size(), comm.size())) {
        const std::size_t count = blocks.extent(comm.rank());
        std::vector<float> out(count);
        allfold::reduce_scatter(comm, p.operand(comm.rank()), out, p.op, order::tree, blocks, options...);
        expect_equal(out, std::span(tree).subspan(blocks.offset(comm.rank()), count), where);
    }
}

}  // namespace

TEST_CASE("the canonical tree of four operands brackets otherwise than a sequential fold") {
    const problem<floats> p(4, 100);
    CHECK_FALSE(std::ranges::equal(fold_tree(p), p.total()));
}

TEST_CASE(
    "order::tree gives all_reduce the bits of the canonical tree, whatever the algorithm, size, window or place") {
    on_all_groups_with_trees([](auto& comm, const auto& p, const auto& tree, const auto& where) {
        for_each_algorithm<2>(allfold::all_reduce, comm.size(), [&](const char* name, auto... algorithm) {
            check_all_reduce(comm, p, tree, where + ", " + name, algorithm...);
            check_all_reduce(comm, p, tree, where + ", in windows, " + name, algorithm..., narrow(p));
        });
    });
    SUCCEED();
}

TEST_CASE("order::tree gives reduce the same bits, whatever the root") {
    on_all_groups_with_trees([](auto& comm, const auto& p, const auto& tree, const auto& where) {
        for_each_algorithm<2>(allfold::reduce, comm.size(), [&](const char* name, auto... algorithm) {
            check_reduce(comm, p, tree, where + ", " + name, algorithm...);
            check_reduce(comm, p, tree, where + ", in windows, " + name, algorithm..., narrow(p));
        });
    });
    SUCCEED();
}

TEST_CASE("order::tree gives reduce_scatter the same bits, whatever the partition") {
    on_all_groups_with_trees([](auto& comm, const auto& p, const auto& tree, const auto& where) {
        for_each_algorithm<2>(allfold::reduce_scatter, comm.size(), [&](const char* name, auto... algorithm) {
            check_reduce_scatter(comm, p, tree, where + ", " + name, algorithm...);
            check_reduce_scatter(comm, p, tree, where + ", in windows, " + name, algorithm..., narrow(p));
        });
    });
    SUCCEED();
}

TEST_CASE("order::tree gives the same bits where ranks share no memory") {
    on_remote_groups<floats>([](auto& comm, const auto& p, const std::string& where) {
        const auto tree = fold_tree(p);
        check_all_reduce(comm, p, tree, where);
        check_reduce(comm, p, tree, where);
        check_reduce_scatter(comm, p, tree, where);
    });
    SUCCEED();
}

TEST_CASE("reduce gives the bits of all_reduce") {
    on_all_groups<floats>([](auto& comm, const auto& p, const std::string& where) {
        const auto in = p.operand(comm.rank());
        std::vector<float> everywhere(p.size());
        allfold::all_reduce(comm, in, everywhere, p.op);
        for (const int root : roots_of(comm.size(), p.size())) {
            std::vector<float> at_root(p.size());
            allfold::reduce(comm, in, at_root, p.op, allfold::root{root});
            if (comm.rank() == root) expect_equal(at_root, everywhere, where + ", root " + std::to_string(root));
        }
    });
    SUCCEED();
}
