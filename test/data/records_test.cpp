// SPDX-License-Identifier: BSL-1.0
#include "allfold/data/records.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/online_softmax.hpp"
#include "allfold/collective.hpp"
#include "allfold/data/tensor_view.hpp"
#include "allfold/schedule/binomial.hpp"
#include "test/support/algorithms.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"

using namespace test;
using allfold::online_softmax;
using allfold::partition;
using allfold::records;
using allfold::sum;
using allfold::tensor;

namespace {

constexpr std::size_t width = 5;
#ifdef ALLFOLD_TEST_SANITIZED
constexpr int group_sizes_here[] = {1, 2, 5};
#else
constexpr int group_sizes_here[] = {1, 2, 3, 4, 5, 8};
#endif
constexpr std::size_t row_counts[] = {0, 1, 7, 3000};

/// Partial attention results of several rows: greatest logits, denominators, numerators.
struct attention {
    explicit attention(std::size_t rows) : m(rows), l(rows), s(rows * width) {}
    attention(std::size_t rows, unsigned seed) : attention(rows) {
        std::mt19937 random(seed);
        std::uniform_real_distribution<double> logit(-30, 30), other(0.1, 2);
        for (double& x : m) x = random() % 5 == 0 ? -std::numeric_limits<double>::infinity() : logit(random);
        for (std::size_t i = 0; i < rows; ++i) {
            const bool empty = std::isinf(m[i]);
            l[i] = empty ? 0 : other(random);
            for (std::size_t j = 0; j < width; ++j) s[i * width + j] = empty ? 0 : other(random) - 1;
        }
    }
    auto view() { return records(m, l, tensor<double, 2>(s.data(), {m.size(), width})); }
    auto block(std::size_t first, std::size_t count) {
        return records(std::span(m).subspan(first, count), std::span(l).subspan(first, count),
                       tensor<double, 2>(s.data() + first * width, {count, width}));
    }
    friend bool operator==(const attention&, const attention&) = default;

    std::vector<double> m, l, s;
};

bool close(double got, double expected) {
    return got == expected || std::abs(got - expected) <= 1e-12 * std::max(1.0, std::abs(expected));
}

void expect_close(const attention& got, const attention& expected, std::size_t first, std::size_t count,
                  const std::string& where) {
    for (std::size_t i = first; i < first + count; ++i) {
        expect(got.m[i] == expected.m[i] && close(got.l[i], expected.l[i]), where + ": wrong row " + std::to_string(i));
        for (std::size_t j = i * width; j < (i + 1) * width; ++j)
            expect(close(got.s[j], expected.s[j]), where + ": wrong numerator in row " + std::to_string(i));
    }
}

/// What each rank contributes, and for each r the merge of ranks 0 to r, computed straight from the definition.
struct contributions {
    contributions(int ranks, std::size_t rows) {
        const auto seed = std::random_device()();
        seed_text = "seed " + std::to_string(seed);
        for (int r = 0; r < ranks; ++r) {
            of_rank.emplace_back(rows, seed + static_cast<unsigned>(r));
            attention& merged = up_to.emplace_back(rows);
            for (std::size_t i = 0; i < rows; ++i) {
                merged.m[i] = -std::numeric_limits<double>::infinity();
                for (const auto& each : of_rank) merged.m[i] = std::max(merged.m[i], each.m[i]);
                for (const auto& each : of_rank) {
                    const double factor = std::isinf(each.m[i]) ? 0 : std::exp(each.m[i] - merged.m[i]);
                    merged.l[i] += factor * each.l[i];
                    for (std::size_t j = i * width; j < (i + 1) * width; ++j) merged.s[j] += factor * each.s[j];
                }
            }
        }
    }
    std::string seed_text;
    std::vector<attention> of_rank, up_to;
};

/// Calls check(comm, parts, size, rows) on all ranks, for several P and several numbers of rows of random attention.
template <class Check>
void on_contributions(Check check) {
    for (const int size : group_sizes_here)
        for (const std::size_t rows : row_counts) {
            const contributions parts(size, rows);
            INFO(parts.seed_text);
            on_ranks(size, [&](auto& comm) { check(comm, parts, size, rows); });
        }
}

}  // namespace

TEST_CASE("records refer to the elements of ranges and keep views") {
    std::vector<int> keys(4);
    std::vector<float> values(8);
    const records both(keys, tensor<float, 2>(values.data(), {4, 2}));
    STATIC_REQUIRE(std::same_as<decltype(both), const records<tensor<int, 1>, tensor<float, 2>>>);
    CHECK(std::get<0>(both.views()).data() == keys.data());
    CHECK(std::get<1>(both.views()).extent(1) == 2);
    const std::vector<int> constant(4);
    STATIC_REQUIRE(std::same_as<decltype(records(constant)), records<tensor<const int, 1>>>);
}

namespace {

/// A range whose size is signed, as those of some libraries.
struct signed_range {
    int* first;
    [[nodiscard]] int* begin() const { return first; }
    [[nodiscard]] int* end() const { return first + 2; }
    [[nodiscard]] std::ptrdiff_t size() const { return 2; }
};

}  // namespace

TEST_CASE("records of one tensor can be copied, and take ranges of any type of size") {
    int numbers[2] = {1, 2};
    records one{signed_range{numbers}};
    records same(one);
    CHECK(std::get<0>(same.views()).data() == numbers);
    CHECK(std::get<0>(same.views()).extent(0) == 2);
}

TEST_CASE("rows of online softmax are merged by every algorithm of all_reduce") {
    on_contributions([](auto& comm, const contributions& parts, int size, std::size_t rows) {
        for_each_algorithm(allfold::all_reduce, size, [&](const std::string& name, auto... options) {
            attention in = parts.of_rank[static_cast<std::size_t>(comm.rank())], out(rows), windows(in);
            const attention before = in;
            allfold::all_reduce(comm, in.view(), out.view(), online_softmax(), options...);
            expect_close(out, parts.up_to.back(), 0, rows, name);
            expect(in == before, name + ": the input has been written");
            allfold::all_reduce(comm, windows.view(), online_softmax(), options..., allfold::window{200});
            expect(windows == out, name + ": other bits in windows and in place");
        });
    });
    SUCCEED();
}

TEST_CASE("rows of online softmax are merged by all other collectives, also where blocks are empty") {
    on_contributions([](auto& comm, const contributions& parts, int size, std::size_t rows) {
        const auto r = static_cast<std::size_t>(comm.rank());
        attention in = parts.of_rank[r], out(rows);
        const attention& total = parts.up_to.back();

        allfold::reduce(comm, in.view(), out.view(), online_softmax(), allfold::root{size - 1});
        if (comm.rank() == size - 1) expect_close(out, total, 0, rows, "reduce");

        allfold::inclusive_scan(comm, in.view(), out.view(), online_softmax());
        expect_close(out, parts.up_to[r], 0, rows, "inclusive_scan");

        allfold::exclusive_scan(comm, in.view(), out.view(), online_softmax());
        attention nothing(rows);
        std::ranges::fill(nothing.m, -std::numeric_limits<double>::infinity());
        expect_close(out, r == 0 ? nothing : parts.up_to[r - 1], 0, rows, "exclusive_scan");

        std::vector<std::size_t> all_at_the_end(static_cast<std::size_t>(size));
        all_at_the_end[static_cast<std::size_t>(size) - 1] = rows;
        for (const auto& blocks :
             {partition::even(rows, size), partition::ceil(rows, size), partition::sizes(all_at_the_end)}) {
            const std::size_t first = blocks.offset(comm.rank()), count = blocks.extent(comm.rank());
            attention shard(count), whole(rows), scattered = in;
            allfold::reduce_scatter(comm, in.view(), shard.view(), online_softmax(), blocks);
            allfold::all_gather(comm, shard.view(), whole.view(), blocks);
            expect_close(whole, total, 0, rows, "reduce_scatter and all_gather");
            allfold::reduce_scatter(comm, scattered.view(), online_softmax(), blocks);
            expect_close(scattered, total, first, count, "reduce_scatter in place");
            allfold::all_gather(comm, scattered.view(), blocks);
            expect(scattered == whole, "all_gather in place");
        }

        allfold::broadcast(comm, in.view(), allfold::root{size / 2}, allfold::binomial());
        expect(in == parts.of_rank[static_cast<std::size_t>(size / 2)], "broadcast");
    });
    SUCCEED();
}

TEST_CASE("an operation on rows can be prepared and started") {
    on_ranks(3, [](auto& comm) {
        std::vector<int> keys(4), values(12);
        auto op = allfold::all_reduce.prepare(comm, records(keys, tensor<int, 2>(values.data(), {4, 3})), sum());
        for (int turn = 0; turn < 4; ++turn) {
            std::ranges::fill(keys, turn);
            std::ranges::fill(values, comm.rank());
            op();
            expect(keys == std::vector(4, 3 * turn) && values == std::vector(12, 3), "wrong sums");
        }
    });
    SUCCEED();
}

TEST_CASE("columns of records may be strided, and of different types") {
    for (const int size : {1, 2, 3, 5})
        on_ranks(size, [&](auto& comm) {
            std::vector<double> memory(40, -1);
            std::vector<char> flags(5, 1);
            std::vector<short> numbers(10, static_cast<short>(comm.rank()));
            const tensor<double, 2> columns(memory.data() + 1, {5, 2}, {8, 3});
            for (std::size_t i = 0; i < 5; ++i) columns(i, 0) = columns(i, 1) = 0.5;
            allfold::all_reduce(comm, records(flags, columns, tensor<short, 2>(numbers.data(), {5, 2})), sum());
            expect(flags == std::vector<char>(5, static_cast<char>(size)), "char");
            expect(numbers == std::vector<short>(10, static_cast<short>(size * (size - 1) / 2)), "short");
            for (std::size_t i = 0; i < 5; ++i)
                expect(columns(i, 0) == 0.5 * size && columns(i, 1) == 0.5 * size, "double");
            expect(std::ranges::count(memory, -1.0) == 30, "written between the elements");
        });
    SUCCEED();
}

TEST_CASE("rows without elements are no work") {
    on_ranks(3, [](auto& comm) {
        std::vector<float> none;
        allfold::all_reduce(comm, records(tensor<float, 2>(none.data(), {4, 0})), sum());
        allfold::inclusive_scan(comm, records(tensor<float, 2>(none.data(), {4, 0})), sum());
    });
    SUCCEED();
}

TEST_CASE("records whose tensors lie in the output in another order, or twice, are an overlap") {
    for (const std::size_t n : {std::size_t{4}, std::size_t{50000}})
        for (const int size : {1, 2, 3}) {
            const auto expect_overlap = [&](auto call, std::string_view text) {
                const auto outcomes = outcomes_on_ranks(size, [&](auto& comm) {
                    std::vector<double> a(n, 1), b(n, 2);
                    call(comm, a, b);
                });
                for (const auto& each : outcomes) {
                    INFO(each.text);
                    CHECK(each.code == allfold::errc::overlap);
                    CHECK(each.says(text));
                }
            };
            expect_overlap(
                [](auto& comm, auto& a, auto& b) { allfold::all_reduce(comm, records(a, b), records(b, a), sum()); },
                "input tensor 1 and output tensor 0 share memory");
            expect_overlap([](auto& comm, auto& a, auto&) { allfold::all_reduce(comm, records(a, a), sum()); },
                           "tensors 0 and 1 of the output share memory");
            expect_overlap([](auto& comm, auto& a,
                              auto& b) { allfold::inclusive_scan(comm, records(a, b), records(b, b), sum()); },
                           "share memory");
        }
}

namespace {

/// The state after `normalize` on every row.
attention normalised(attention state) {
    for (std::size_t i = 0; i < state.m.size(); ++i) {
        const std::span row = std::span(state.s).subspan(i * width, width);
        online_softmax::normalize(state.l[i], std::span<const double>(row), row);
    }
    return state;
}

}  // namespace

TEST_CASE("the last division of online softmax can be made by the collective") {
    on_contributions([](auto& comm, const contributions& parts, int size, std::size_t rows) {
        const auto r = static_cast<std::size_t>(comm.rank());
        const allfold::normalised_softmax op;
        attention in = parts.of_rank[r], fold(rows), out(rows);
        const attention before = in;
        allfold::all_reduce(comm, in.view(), fold.view(), online_softmax());
        allfold::all_reduce(comm, in.view(), out.view(), op);
        expect(in == before, "the input has been written");
        const attention expected = normalised(fold);
        expect(out == expected, "all_reduce");
        allfold::all_reduce(comm, in.view(), op, allfold::window{500});
        expect(in == expected, "all_reduce in place and in windows");
        in = before;
        allfold::all_reduce(comm, in.view(), op);
        expect(in == expected, "all_reduce in place");

        in = before;
        out = attention(rows);
        const bool is_root = comm.rank() == size - 1;
        allfold::reduce(comm, in.view(), out.view(), op, allfold::root{size - 1});
        expect(out == (is_root ? expected : attention(rows)), "reduce");
        allfold::reduce(comm, in.view(), op, allfold::root{size - 1});
        expect(in == (is_root ? expected : before), "reduce in place");

        in = before;
        std::ranges::fill(out.s, 7);
        allfold::exclusive_scan(comm, in.view(), fold.view(), online_softmax());
        allfold::exclusive_scan(comm, in.view(), out.view(), op);
        expect(out == normalised(fold), "exclusive_scan");
        if (r == 0) expect(std::ranges::count(out.s, 0.0) == std::ssize(out.s), "attention to nothing");
    });
    SUCCEED();
}

TEST_CASE("softmax states are divided by the collective too") {
    on_ranks(3, [](auto& comm) {
        using state = allfold::softmax_state<float, 4>;
        std::vector<state> x(
            3000, online_softmax::lift(0.5F * static_cast<float>(comm.rank()), std::array{1.F, 2.F, 3.F, 4.F}));
        x[7] = {};
        std::vector<state> folds(x.size()), out(x.size());
        allfold::all_reduce(comm, x, folds, online_softmax());
        allfold::all_reduce(comm, x, out, allfold::normalised_softmax());
        for (std::size_t i = 0; i < x.size(); ++i)
            expect(out[i].m == folds[i].m && out[i].l == folds[i].l && out[i].s == online_softmax::normalize(folds[i]),
                   "wrong attention");
        expect(out[7] == state(), "attention to nothing");
    });
    SUCCEED();
}
