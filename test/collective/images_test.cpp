// SPDX-License-Identifier: BSL-1.0
#include "allfold/collective/images.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "allfold/algebra/exact_sum.hpp"
#include "allfold/algebra/mean.hpp"
#include "allfold/algebra/operator.hpp"
#include "allfold/algebra/stretch.hpp"
#include "allfold/collective/subset.hpp"
#include "allfold/data/tensor_view.hpp"
#include "allfold/data/tensors.hpp"
#include "test/collective/images_checks.hpp"
#include "test/support/catch.hpp"
#include "test/support/groups.hpp"
#include "test/support/hierarchies.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/remote.hpp"

using namespace test;
using allfold::errc;
using allfold::sum;

TEST_CASE("the images of all ranks are folded, rank by rank") {
    for (const int size : group_sizes) on_ranks(size, [](auto& comm) { check_images(comm, {0, 1, 7, 400}); });
    for (const int size : {2, 3})
        on_ranks(
            size,
            [](auto& base) {
                remote comm(base);
                check_images(comm, {0, 1, 7, 400});
            },
            roomy);
    SUCCEED();
}

TEST_CASE("the images of all threads of processes are folded, rank by rank") {
    on_hierarchies_of_few([](auto& comm, const std::string&) {
        const auto ranks = static_cast<std::size_t>(comm.size());
        check_images(comm, {0, 1, ranks - 1, ranks, ranks + 1, 400});
    });
    on_threads_of_threads(3, 2, [](auto& comm) {
        const auto team = allfold::subset(comm, {4, 1, 0, 3, 5});
        if (team) check_images(*team, {0, 1, 4, 5, 6, 400});
    });
    SUCCEED();
}

TEST_CASE("images are folded by operators that take many elements at once") {
    struct map {  // x → factor·x + more: the order of composition matters
        unsigned factor = 0, more = 0;
        [[nodiscard]] map then(const map& next) const { return {next.factor * factor, next.factor * more + next.more}; }
        bool operator==(const map&) const = default;
    };
    const auto compose = allfold::associative(
        [](allfold::stretch<const map> left, allfold::stretch<const map> right, allfold::stretch<map> out) {
            for (std::size_t i = 0; i < out.size(); ++i) out.data()[i] = left.data()[i].then(right.data()[i]);
        });
    const auto map_of = [](int image) { return map{2 + static_cast<unsigned>(image), 1}; };
    on_all_kinds_of_ranks([&](auto& comm) {
        const int own = 2 * comm.rank();
        map first = map_of(own), second = map_of(own + 1), total{}, before = map_of(0), all = before;
        for (int i = 1; i < 2 * comm.size(); ++i) {
            if (i <= own) before = before.then(map_of(i));
            all = all.then(map_of(i));
        }
        allfold::all_reduce(comm, images(first, second), total, compose);
        expect(total == all, "all_reduce");
        allfold::inclusive_scan(comm, images(first, second), compose);
        expect(first == before && second == before.then(map_of(own + 1)), "inclusive_scan");
    });
    SUCCEED();
}

TEST_CASE("images are variables, tensors with gaps and lists; operators lift, and lower by the number of images") {
    on_all_kinds_of_ranks([](auto& comm) {
        const int last = comm.size() - 1;
        double a = comm.rank(), b = 10, average = -1;
        allfold::all_reduce(comm, comm.rank() == 0 ? images(a) : images(a, b), average, allfold::mean(),
                            allfold::deadline(std::chrono::minutes(5)));
        expect(average == (last * (last + 1) / 2 + 10.0 * last) / (2 * last + 1), "mean");
        allfold::inclusive_scan(comm, images(a, b), allfold::mean());
        const int r = comm.rank(), below = r * (r - 1) / 2 + 10 * r;  // the sum of 2 r images
        expect(a == static_cast<double>(below + r) / (2 * r + 1), "the mean up to the first image");
        expect(b == static_cast<double>(below + r + 10) / (2 * r + 2), "the mean up to the second image");
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

TEST_CASE("long images of several pieces, cut at different places, are folded in image order") {
    constexpr std::size_t n = 5000, images_of_rank = 11;  // more than fit into the nearest cache at a time
    using pair = std::array<unsigned, 2>;                 // x -> a x + b: composition does not commute
    const auto compose =
        allfold::associative([](const pair& f, const pair& g) -> pair { return {f[0] * g[0], f[0] * g[1] + f[1]}; });
    const auto of = [](int rank, std::size_t k, std::size_t i) -> pair {
        return {static_cast<unsigned>(rank + 2), static_cast<unsigned>(k * n + i)};
    };
    on_ranks(3, [&](auto& comm) {
        std::vector<std::vector<pair>> values(images_of_rank, std::vector<pair>(n));
        std::vector<pair> result(n), at_root(n);
        images<pair> mine(values[0]);
        for (std::size_t k = 0; k < images_of_rank; ++k) {
            for (std::size_t i = 0; i < n; ++i) values[k][i] = of(comm.rank(), k, i);
            const std::span<pair> all(values[k]);
            if (k > 0)
                mine.add(
                    allfold::tensors(all.first(k), all.subspan(k, 0), all.subspan(k, 2048), all.last(n - 2048 - k)));
        }
        const auto expected = [&](std::size_t i) {
            pair all = of(0, 0, i);
            for (int r = 0; r < comm.size(); ++r)
                for (std::size_t k = r == 0 ? 1 : 0; k < images_of_rank; ++k) all = compose(all, of(r, k, i));
            return all;
        };
        const auto require_right = [&](std::span<const pair> found, std::size_t first, const char* what) {
            for (std::size_t i = 0; i < found.size(); ++i) expect(found[i] == expected(first + i), what);
        };
        allfold::all_reduce(comm, mine, result, compose);
        require_right(result, 0, "all_reduce");
        allfold::reduce(comm, mine, at_root, compose);
        if (comm.rank() == 0) require_right(at_root, 0, "reduce");
        std::vector<pair> apart(n);
        const std::span<pair> all(apart);
        allfold::all_reduce(comm, mine, images(allfold::tensors(all.first(7), all.subspan(7))), compose);
        require_right(apart, 0, "all_reduce into two pieces");
        allfold::all_reduce(comm, mine, values[3], compose);
        require_right(values[3], 0, "all_reduce into an image");
        for (std::size_t i = 0; i < n; ++i) values[3][i] = of(comm.rank(), 3, i);
        std::ranges::fill(apart, pair{});
        if (comm.rank() == 1)  // one rank has a place in two pieces, the others have theirs in one
            allfold::all_reduce(comm, mine, images(allfold::tensors(all.first(7), all.subspan(7))), compose);
        else
            allfold::all_reduce(comm, mine, apart, compose);
        require_right(apart, 0, "all_reduce into places of different kinds");
    });
    SUCCEED();
}

namespace {

/// Rank 0 makes a wrong call, and all ranks must fail. It is rank 0 because in a scan it need not wait for any other.
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
    require_error(errc::bad_argument, "rank 0: there are no images and the operator has no identity",
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
    require_error(errc::mismatch, "rank 0: the output has 3 elements, but 2 are needed",
                  [&](auto& comm, auto& x, auto& y, bool is_wrong) {
                      const auto blocks = allfold::partition::sizes({2, 1, 1});
                      const std::size_t held = is_wrong ? 3 : blocks.extent(comm.rank());
                      allfold::reduce_scatter(comm, images(x, x), std::span(y).first(held), join, blocks);
                  });
    require_error(errc::mismatch, "has 3",  // and another rank has 4: whichever finds it reports it
                  [&](auto& comm, auto& x, auto& y, bool is_wrong) {
                      const std::size_t n = is_wrong ? 3 : 4;
                      allfold::all_reduce(comm, images(std::span(x).first(n)), std::span(y).first(n), join);
                  });
    require_error(errc::mismatch, "rank 0: there are 1 outputs for 2 images",
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

namespace {

/// Keeps the left one of two states, and has a state of its own.
struct first_of_all {
    [[nodiscard]] long operator()(const long& left, const long&) const { return left; }
    [[nodiscard]] long lift(const int& x) const { return x; }
    [[nodiscard]] int lower(const long& x, int) const { return static_cast<int>(x); }
};

}  // namespace

TEST_CASE("operators on images that declare their laws at run time fold in the declared order") {
    for (const bool commutes : {false, true})
        on_ranks(
            4,
            [commutes](auto& base) {
                remote comm(base);
                constexpr std::size_t n = 1 << 15;  // so long that a commutative operator folds blocks in other orders
                const auto first = allfold::commutative_if(commutes, first_of_all());
                std::vector<int> a(n, 2 * comm.rank()), b(n, 2 * comm.rank() + 1), fold(n, -1);
                allfold::all_reduce(comm, images(a, b), fold, first);
                expect((fold == std::vector<int>(n)) == !commutes, "the first image");
                double x = comm.rank(), y = 1, average = 0;
                allfold::all_reduce
                    .start(comm, images(x, y), average, allfold::commutative_if(commutes, allfold::mean()))
                    .wait();
                expect(average == 10.0 / 8, "the mean");
            },
            roomy);
    SUCCEED();
}

TEST_CASE("an error in images in flight is reported on all ranks") {
    const auto outcomes = outcomes_on_ranks(3, [](auto& comm) {
        std::vector<int> x(4, 1), y(4);
        const auto join = allfold::associative([](int a, int b) { return a + b; });
        auto wrong = allfold::all_reduce.prepare(comm, comm.rank() == 1 ? images<int>::none(4) : images(x), y, join);
        wrong();
    });
    for (const outcome& each : outcomes)
        CHECK(each.says("rank 1: there are no images and the operator has no identity"));
}

TEST_CASE("a reduce_scatter of images that are lists is refused, since a list has blocks in each tensor") {
    const auto outcomes = outcomes_on_ranks(2, [](auto& comm) {
        std::vector<int> a(4, 1), b(2, 1), block(3, -1);
        const outcome own =
            outcome_of([&] { allfold::reduce_scatter(comm, images(allfold::tensors{a, b}), block, sum()); });
        expect(block == std::vector<int>(3, -1), "written");
        if (!own.succeeded()) throw std::runtime_error(own.text);
    });
    for (const outcome& each : outcomes) CHECK(each.says("images are cut as a whole: make one call for each tensor"));
}
