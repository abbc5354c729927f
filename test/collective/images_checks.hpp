// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "allfold/collective/images.hpp"
#include "allfold/data/partition.hpp"
#include "test/support/algebras.hpp"
#include "test/support/oracle.hpp"

/// @file
/// What collectives must do with several operands of one rank, on any communicator.

namespace test {

using allfold::images;

/// The images of one rank, as many as its entry in `counts`: counted over all ranks, image i is operand i of a problem.
template <class Algebra, class Comm>
class rank_images {
  public:
    using element = typename Algebra::element;

    rank_images(const Comm& comm, const problem<Algebra>& p, const std::vector<int>& counts) {
        for (int r = 0; r < comm.rank(); ++r) first_ += counts[static_cast<std::size_t>(r)];
        for (int i = 0; i < counts[static_cast<std::size_t>(comm.rank())]; ++i) {
            const auto operand = p.operand(first_ + i);
            values.emplace_back(operand.begin(), operand.end());
        }
        none_ = p.size();
    }
    [[nodiscard]] int number(std::size_t i) const { return first_ + static_cast<int>(i); }
    template <class Values>
    [[nodiscard]] auto list(Values& of) const {
        auto made = images<std::remove_reference_t<decltype(of[0][0])>>::none(none_);
        for (auto& each : of) made.add(each);
        return made;
    }
    std::vector<std::vector<element>> values;

  private:
    int first_ = 0;
    std::size_t none_ = 0;
};

/// The first block has a third of the elements, the last one all others.
inline allfold::partition uneven_blocks(std::size_t n, int ranks) {
    std::vector<std::size_t> sizes(static_cast<std::size_t>(ranks));
    sizes.front() = n / 3;
    sizes.back() += n - n / 3;
    return allfold::partition::sizes(sizes);
}

/// The fold of all images below image i; at image 0 the identity if there is one, otherwise what was there before.
template <class Algebra, class Op>
std::vector<typename Algebra::element> expected_below(const problem<Algebra>& p, int i, const Op& op) {
    using element = typename Algebra::element;
    if (i > 0) return {p.prefix(i - 1).begin(), p.prefix(i - 1).end()};
    if constexpr (allfold::operator_with_identity<Op, element>)
        return std::vector(p.size(), allfold::identity_of<element>(op));
    else
        return std::vector(p.size(), Algebra::margin());
}

template <class Algebra, class Comm, class Op>
void check_images(Comm& comm, const problem<Algebra>& p, const std::vector<int>& counts, const Op& op,
                  const std::string& where) {
    using element = typename Algebra::element;
    const rank_images<Algebra, Comm> mine(comm, p, counts);
    const int root = comm.size() - 1;
    std::vector<element> total(p.size(), Algebra::margin()), at_root;
    allfold::all_reduce(comm, mine.list(mine.values), total, op);
    expect_same<Algebra>(total, p.total(), where + ", all_reduce");
    if (comm.rank() == root) at_root.resize(p.size());
    allfold::reduce(comm, mine.list(mine.values), at_root, op, allfold::root{root});
    if (comm.rank() == root) expect_same<Algebra>(at_root, p.total(), where + ", reduce");

    const auto blocks = uneven_blocks(p.size(), comm.size());
    const auto mine_of = p.total().subspan(blocks.offset(comm.rank()), blocks.extent(comm.rank()));
    std::vector<element> block(mine_of.size(), Algebra::margin());
    allfold::reduce_scatter(comm, mine.list(mine.values), block, op, blocks);
    expect_same<Algebra>(block, mine_of, where + ", reduce_scatter");

    auto x = mine.values;
    allfold::all_reduce(comm, mine.list(x), op);
    for (const auto& each : x) expect_same<Algebra>(each, p.total(), where + ", all_reduce in place");
    for (int other = 0; other < comm.size(); ++other) {
        x = mine.values;
        allfold::reduce(comm, mine.list(x), op, allfold::root{other});
        for (std::size_t i = 0; i < x.size(); ++i)
            expect_same<Algebra>(x[i], comm.rank() == other ? p.total() : std::span<const element>(mine.values[i]),
                                 where + ", reduce in place to rank " + std::to_string(other));
    }
    x = mine.values;
    allfold::inclusive_scan(comm, mine.list(x), op);
    for (std::size_t i = 0; i < x.size(); ++i)
        expect_same<Algebra>(x[i], p.prefix(mine.number(i)), where + ", inclusive_scan");
    x.assign(x.size(), std::vector<element>(p.size(), Algebra::margin()));
    allfold::exclusive_scan(comm, mine.list(mine.values), mine.list(x), op);
    for (std::size_t i = 0; i < x.size(); ++i)
        expect_same<Algebra>(x[i], expected_below(p, mine.number(i), op), where + ", exclusive_scan");
}

/// The same for operations in flight, which ranks wait for in opposite orders, and for prepared ones.
template <class Algebra, class Comm, class Op>
void check_started_images(Comm& comm, const problem<Algebra>& p, const std::vector<int>& counts, const Op& op,
                          const std::string& where) {
    using element = typename Algebra::element;
    const rank_images<Algebra, Comm> mine(comm, p, counts);
    std::vector<element> total(p.size(), Algebra::margin()), at_root = total;
    const std::vector<element> untouched(p.size(), Algebra::margin());
    auto x = mine.values;
    std::vector y(x.size(), untouched);
    const auto blocks = uneven_blocks(p.size(), comm.size());
    const auto mine_of = p.total().subspan(blocks.offset(comm.rank()), blocks.extent(comm.rank()));
    std::vector<element> block(mine_of.size(), Algebra::margin());
    std::vector<allfold::operation> all;
    all.push_back(allfold::all_reduce.start(comm, mine.list(mine.values), total, op));
    all.push_back(allfold::reduce_scatter.start(comm, mine.list(mine.values), block, op, blocks));
    all.push_back(allfold::inclusive_scan.start(comm, mine.list(x), op));
    all.push_back(allfold::reduce.start(comm, mine.list(mine.values), at_root, op));
    all.push_back(allfold::exclusive_scan.start(comm, mine.list(mine.values), mine.list(y), op));
    if (comm.rank() % 2 == 1) std::ranges::reverse(all);
    wait_all(all);
    expect_same<Algebra>(total, p.total(), where + ", all_reduce started");
    expect_same<Algebra>(block, mine_of, where + ", reduce_scatter started");
    if (comm.rank() == 0) expect_same<Algebra>(at_root, p.total(), where + ", reduce started");
    for (std::size_t i = 0; i < x.size(); ++i) {
        const int k = mine.number(i);
        expect_same<Algebra>(x[i], p.prefix(k), where + ", inclusive_scan started");
        expect_same<Algebra>(y[i], expected_below(p, k, op), where + ", exclusive_scan started");
    }

    x = mine.values;
    auto again = allfold::inclusive_scan.prepare(comm, mine.list(x), mine.list(y), op);
    auto folded = allfold::all_reduce.prepare(comm, mine.list(x), total, op);
    for (int turn = 0; turn < 3; ++turn) {  // the second one with other values
        x.assign(x.size(), untouched);
        if (turn != 1) x = mine.values;
        total = untouched;
        comm.rank() % 2 == 0 ? again.start() : folded.start();
        comm.rank() % 2 == 0 ? folded.start() : again.start();
        again.wait();
        folded.wait();
        if (turn == 1) continue;
        expect_same<Algebra>(total, p.total(), where + ", all_reduce prepared");
        for (std::size_t i = 0; i < x.size(); ++i)
            expect_same<Algebra>(y[i], p.prefix(mine.number(i)), where + ", inclusive_scan prepared");
    }
}

/// Checks different numbers of images on each rank, and none on some ranks if the operator has an identity.
template <class Comm>
void check_images(Comm& comm, const std::vector<std::size_t>& lengths) {
    const int size = comm.size();
    std::vector<int> some(static_cast<std::size_t>(size)), few = some;
    for (int r = 0; r < size; ++r) {
        some[static_cast<std::size_t>(r)] = 1 + r % 3;
        few[static_cast<std::size_t>(r)] = (r + 1) % 3;  // 1, 2, 0, 1, 2, 0, ...
    }
    few.back() = 0;
    few.front() = size % 2;
    if (size == 2) few = {0, 2};
    if (size == 1) few = {2};
    const auto all_of = [](const std::vector<int>& counts) {
        int all = 0;
        for (const int each : counts) all += each;
        return all;
    };
    for (const std::size_t n : lengths) {
        const auto where = std::to_string(size) + " ranks, " + std::to_string(n) + " elements";
        if constexpr (Comm::shares_memory) {  // elsewhere these are folded as those of the next operator are
            const problem<matrices> p(all_of(some), n);
            check_images(comm, p, some, p.op, where);
            check_started_images(comm, p, some, p.op, where);
        }
        const problem<matrices> q(all_of(few), n);
        check_images(comm, q, few, allfold::with_identity(q.op, matrix{1, 0, 0, 1}), where + ", none at some ranks");
        const problem<words> w(all_of(some), n);
        check_images(comm, w, some, w.op, where + ", words");
        check_started_images(comm, w, some, w.op, where + ", words");
    }
}

}  // namespace test
