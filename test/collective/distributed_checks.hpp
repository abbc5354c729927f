// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/distributed.hpp"
#include "test/support/oracle.hpp"

/// @file
/// What folds and scans of distributed arrays must do, on any communicator.

namespace test {

using allfold::block_cyclic;
using allfold::distributed;

/// An array, and the folds of its elements from left to right.
template <class Algebra>
struct array {
    using element = typename Algebra::element;

    explicit array(std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) elements.push_back(Algebra::sample(static_cast<int>(i / 10 % 26), i));
        for (const element& x : elements) prefixes.push_back(prefixes.empty() ? x : op(prefixes.back(), x));
    }
    decltype(Algebra::operation()) op = Algebra::operation();
    std::vector<element> elements, prefixes;
};

/// The elements that a rank holds.
template <class T, class Comm>
std::vector<T> held_by(const Comm& comm, const std::vector<T>& all, const block_cyclic& layout) {
    std::vector<T> own;
    for (std::size_t i = 0; i < layout.extent(comm.rank(), comm.size()); ++i)
        own.push_back(all[layout.global_index(comm.rank(), i, comm.size())]);
    return own;
}

template <class Algebra, class Comm, class... Options>
void check_array(Comm& comm, const array<Algebra>& a, const block_cyclic& source, const block_cyclic& target,
                 const std::string& where, const Options&... options) {
    using element = typename Algebra::element;
    const std::size_t n = a.elements.size();
    const auto mine = held_by(comm, a.elements, source);
    const auto expected = held_by(comm, a.prefixes, target);
    std::vector<element> shifted(n, Algebra::margin());
    for (std::size_t i = 1; i < n; ++i) shifted[i] = a.prefixes[i - 1];

    if (n > 0) {
        const int root = static_cast<int>(n) % comm.size();
        element total = Algebra::margin(), at_root = Algebra::margin();
        allfold::all_reduce(comm, distributed(mine, source), total, a.op, options...);
        expect(total == a.prefixes.back(), where + ", all_reduce");
        allfold::reduce(comm, distributed(mine, source), at_root, a.op, allfold::root{root}, options...);
        expect(at_root == (comm.rank() == root ? a.prefixes.back() : Algebra::margin()), where + ", reduce");
    }
    std::vector<element> out(expected.size(), Algebra::margin()), x = mine;
    allfold::inclusive_scan(comm, distributed(mine, source), distributed(out, target), a.op, options...);
    expect_equal(out, expected, where + ", inclusive_scan");
    allfold::inclusive_scan(comm, distributed(x, source), a.op, options...);
    expect_equal(x, held_by(comm, a.prefixes, source), where + ", inclusive_scan in place");
    std::fill(out.begin(), out.end(), Algebra::margin());
    allfold::exclusive_scan(comm, distributed(mine, source), distributed(std::span(out), target), a.op, options...);
    expect_equal(out, held_by(comm, shifted, target), where + ", exclusive_scan");
}

/// The same for operations in flight, which ranks wait for in opposite orders, and for prepared ones.
template <class Algebra, class Comm, class... Options>
void check_started_array(Comm& comm, const array<Algebra>& a, const block_cyclic& source, const block_cyclic& target,
                         const std::string& where, const Options&... options) {
    using element = typename Algebra::element;
    if (a.elements.empty()) return;
    const auto mine = held_by(comm, a.elements, source);
    const auto expected = held_by(comm, a.prefixes, target);
    const int root = comm.size() - 1;
    element total = Algebra::margin(), at_root = Algebra::margin();
    std::vector<element> out(expected.size(), Algebra::margin()), x = mine;
    std::vector<allfold::operation> all;
    all.push_back(allfold::all_reduce.start(comm, distributed(mine, source), total, a.op, options...));
    all.push_back(
        allfold::inclusive_scan.start(comm, distributed(mine, source), distributed(out, target), a.op, options...));
    all.push_back(
        allfold::reduce.start(comm, distributed(mine, source), at_root, a.op, allfold::root{root}, options...));
    all.push_back(allfold::inclusive_scan.start(comm, distributed(x, source), a.op, options...));
    if (comm.rank() % 2 == 1) std::ranges::reverse(all);
    wait_all(all);
    expect(total == a.prefixes.back(), where + ", all_reduce started");
    expect(at_root == (comm.rank() == root ? a.prefixes.back() : Algebra::margin()), where + ", reduce started");
    expect_equal(out, expected, where + ", inclusive_scan started");
    expect_equal(x, held_by(comm, a.prefixes, source), where + ", inclusive_scan in place started");

    auto again =
        allfold::inclusive_scan.prepare(comm, distributed(x, source), distributed(out, target), a.op, options...);
    auto folded = allfold::all_reduce.prepare(comm, distributed(x, source), total, a.op, options...);
    std::ranges::fill(out, Algebra::margin());
    total = Algebra::margin();
    for (int turn = 0; turn < 2; ++turn) {
        x = turn == 0 ? std::vector<element>(mine.size(), Algebra::margin()) : mine;
        comm.rank() % 2 == 0 ? again.start() : folded.start();
        comm.rank() % 2 == 0 ? folded.start() : again.start();
        folded.wait();
        again.wait();
    }
    expect(total == a.prefixes.back(), where + ", all_reduce prepared");
    expect_equal(out, expected, where + ", inclusive_scan prepared");
}

inline std::string place_of(int ranks, const block_cyclic& source, const block_cyclic& target) {
    return std::to_string(ranks) + " ranks, from " + source.text() + " to " + target.text();
}

/// Layouts that differ in what matters: uneven ends, few elements, only one rank, blocks longer than the array.
inline std::vector<block_cyclic> layouts_of(std::size_t n, int ranks) {
    constexpr std::size_t huge = std::numeric_limits<std::size_t>::max() / 8;
    return {{1, 0, n},
            {3, 2, n},
            {5, 17, n},
            block_cyclic::on_rank(ranks - 1, n),
            {n + 7, 3, n},
            {8, 64, n},
            block_cyclic::blocks(n, ranks),
            {huge, huge - 3, n}};
}

/// Checks arrays of these lengths.
template <class Algebra, class Comm>
void check_arrays(Comm& comm, const std::vector<std::size_t>& lengths) {
    for (const std::size_t n : lengths) {
        const array<Algebra> a(n);
        const auto layouts = layouts_of(n, comm.size());
        for (std::size_t i = 0; i < layouts.size(); ++i) {
            const auto &source = layouts[i], &target = layouts[(i + n) % layouts.size()];
            const auto where = place_of(comm.size(), source, target);
            check_array(comm, a, source, target, where);
            check_array(comm, a, source, target, where + ", in one tree", allfold::order::global);
            if (i == n % layouts.size()) check_started_array(comm, a, source, target, where);
            if (i == (n + 3) % layouts.size())
                check_started_array(comm, a, source, target, where, allfold::order::global);
        }
    }
}
template <class Algebra, class Comm>
void check_arrays(Comm& comm) {
    const auto size = static_cast<std::size_t>(comm.size());
    check_arrays<Algebra>(comm, {0, 1, size, 2 * size + 1, 43});
}

}  // namespace test
