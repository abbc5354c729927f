// SPDX-License-Identifier: BSL-1.0
#include "allfold/collective/images.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "allfold/algebra/exact_sum.hpp"
#include "allfold/algebra/mean.hpp"
#include "allfold/data/tensor_view.hpp"
#include "allfold/data/tensors.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/remote.hpp"

using namespace test;
using allfold::errc;
using allfold::images;
using allfold::sum;

namespace {

/// As many images as the numbers of a rank say: image i of all is operand i of a problem.
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

    auto x = mine.values;
    allfold::all_reduce(comm, mine.list(x), op);
    for (const auto& each : x) expect_same<Algebra>(each, p.total(), where + ", all_reduce in place");
    x = mine.values;
    allfold::reduce(comm, mine.list(x), op);
    for (std::size_t i = 0; i < x.size(); ++i)
        expect_same<Algebra>(x[i], comm.rank() == 0 ? p.total() : std::span<const element>(mine.values[i]),
                             where + ", reduce in place");
    x = mine.values;
    allfold::inclusive_scan(comm, mine.list(x), op);
    for (std::size_t i = 0; i < x.size(); ++i)
        expect_same<Algebra>(x[i], p.prefix(mine.number(i)), where + ", inclusive_scan");
    const std::vector<element> untouched(p.size(), Algebra::margin());
    x.assign(x.size(), untouched);
    allfold::exclusive_scan(comm, mine.list(mine.values), mine.list(x), op);
    for (std::size_t i = 0; i < x.size(); ++i)
        if (mine.number(i) > 0)
            expect_same<Algebra>(x[i], p.prefix(mine.number(i) - 1), where + ", exclusive_scan");
        else if (!allfold::operator_with_identity<Op, element>)
            expect_same<Algebra>(x[i], untouched, where + ", exclusive_scan: the first");
        else
            expect(x[i] != untouched || p.size() == 0, where + ", exclusive_scan: the identity");
}

matrix one() { return {1, 0, 0, 1}; }
void check_words_and_matrices(auto& comm, bool objects) {
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
    for (const std::size_t n : {0U, 1U, 7U, 400U}) {
        const auto where = std::to_string(size) + " ranks, " + std::to_string(n) + " elements";
        const problem<matrices> p(all_of(some), n), q(all_of(few), n);
        check_images(comm, p, some, p.op, where);
        check_images(comm, q, few, allfold::with_identity(q.op, one()), where + ", none at some ranks");
        if constexpr (std::remove_reference_t<decltype(comm)>::shares_memory) {
            const problem<words> w(all_of(some), n);
            if (objects) check_images(comm, w, some, w.op, where + ", words");
        }
    }
}

}  // namespace

TEST_CASE("the images of all ranks are folded, rank by rank") {
    for (const int size : {1, 2, 3, 4, 5, 6, 7, 8, 12})
        on_ranks(size, [](auto& comm) { check_words_and_matrices(comm, true); });
    for (const int size : {2, 3})
        on_ranks(
            size,
            [](auto& base) {
                remote comm(base);
                check_words_and_matrices(comm, false);
            },
            roomy);
    SUCCEED();
}

TEST_CASE("images are variables, tensors with gaps and lists; operators lift, and lower by the number of images") {
    for (const int size : {1, 2, 5})
        on_ranks(size, [](auto& comm) {
            const int last = comm.size() - 1;
            double a = comm.rank(), b = 10, average = -1;
            allfold::all_reduce(comm, comm.rank() == 0 ? images(a) : images(a, b), average, allfold::mean());
            expect(average == (last * (last + 1) / 2 + 10.0 * last) / (2 * last + 1), "mean");
            allfold::inclusive_scan(comm, images(a, b), allfold::mean());
            if (comm.rank() == 0) expect(a == 0 && b == 5, "means");
            double x = 1e300, y = 1, z = -1e300, before = -1;
            allfold::all_reduce(comm, images(x, y, z), before, allfold::exact_sum<double>());
            expect(before == comm.size(), "exact sum");
            allfold::exclusive_scan(comm, images(x, y, z), allfold::exact_sum<double>());
            expect(x == comm.rank() && y == 1e300 && z == 1e300, "exact prefixes");

            std::vector<int> memory{1, 9, 2, 9, 3, 9}, list{4, 5, 6};
            const allfold::tensor<int, 1> gaps(memory.data(), {3}, {2});
            allfold::all_reduce(comm, images(gaps, allfold::tensors(std::span(list).first(1), std::span(list).last(2))),
                                sum());
            const int p = comm.size();
            expect(memory == std::vector{5 * p, 9, 7 * p, 9, 9 * p, 9}, "a tensor with gaps");
            expect(list == std::vector{5 * p, 7 * p, 9 * p}, "a list");
        });
    SUCCEED();
}

namespace {

/// What all ranks are told, of whom rank 0 has it wrong: in a scan it need not wait for any other.
template <class Call>
void require_error(errc code, const std::string& words, Call call) {
    const auto outcomes = outcomes_on_ranks(3, [&](auto& comm) {
        std::vector<int> x(4, 1), y(4, 7);
        try {
            call(comm, x, y, comm.rank() == 0);
        } catch (...) {
            expect(x == std::vector(4, 1) && y == std::vector(4, 7), "something has been written");
            throw;
        }
    });
    for (const outcome& each : outcomes) {
        INFO(each.text);
        CHECK((each.code == code || each.code == errc::peer_failed));
        CHECK(each.says(words));
    }
    CHECK(std::ranges::any_of(outcomes, [code](const outcome& each) { return each.code == code; }));
}

}  // namespace

TEST_CASE("images that do not fit are refused, and nobody waits for the rank that has them") {
    const auto join = allfold::associative([](int a, int b) { return a + b; });
    require_error(errc::bad_argument, "rank 0: it has no images, and the operator no identity",
                  [&](auto& comm, auto& x, auto& y, bool is_wrong) {
                      allfold::all_reduce(comm, is_wrong ? images<int>::none(4) : images(x), y, join);
                  });
    require_error(errc::mismatch, "rank 0: image 1 has 3 elements, but image 0 has 4",
                  [&](auto& comm, auto& x, auto& y, bool is_wrong) {
                      allfold::all_reduce(comm, images(x, std::span(x).first(is_wrong ? 3 : 4)), y, join);
                  });
    require_error(errc::mismatch, "rank 0: output 0 has 3 elements, but image 0 has 4",
                  [&](auto& comm, auto& x, auto& y, bool is_wrong) {
                      allfold::all_reduce(comm, images(x), std::span(y).first(is_wrong ? 3 : 4), join);
                  });
    require_error(errc::mismatch, "has 3",  // and another one 4: whichever rank finds it says so
                  [&](auto& comm, auto& x, auto& y, bool is_wrong) {
                      const std::size_t n = is_wrong ? 3 : 4;
                      allfold::all_reduce(comm, images(std::span(x).first(n)), std::span(y).first(n), join);
                  });
    require_error(errc::mismatch, "rank 0: there are 1 outputs of 2 images",
                  [&](auto& comm, auto& x, auto& y, bool is_wrong) {
                      std::vector<int> z(4);
                      allfold::inclusive_scan(comm, images(x, x), is_wrong ? images(y) : images(y, z), join);
                  });
    require_error(errc::overlap, "rank 0: output 0 and input 1 share memory",
                  [&](auto& comm, auto& x, auto& y, bool is_wrong) {
                      std::vector<int> other(4);
                      std::vector<int>& second = is_wrong ? x : other;
                      allfold::inclusive_scan(comm, images(x, second), images(x, y), join);
                  });
    require_error(errc::overlap, "rank 0: output 0 and output 1 share memory",
                  [&](auto& comm, auto& x, auto& y, bool is_wrong) {
                      std::vector<int> other(4);
                      allfold::exclusive_scan(comm, images(x, x), images(y, is_wrong ? y : other), join);
                  });
}
