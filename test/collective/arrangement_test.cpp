// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/mean.hpp"
#include "allfold/collective/subset.hpp"
#include "test/collective/arrangement_checks.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"
#include "test/support/groups.hpp"
#include "test/support/hierarchies.hpp"
#include "test/support/ranks.hpp"
#include "test/support/remote.hpp"
#include "test/support/sanitized.hpp"
#include "test/support/short_calls.hpp"

using namespace test;
using allfold::errc;
using allfold::sum;
using allfold::tensors;

TEMPLATE_TEST_CASE("collectives take lists of tensors, and blocks along any axis", "", words, matrices) {
    for (const int size : few_group_sizes)
        for (const auto& tuning : {allfold::thread_tuning(), impatient, noticing}) {
            if ((tuning == noticing && size != 3) || (tuning == impatient && size > 3)) continue;
            on_ranks(
                size,
                [&](auto& comm) {
                    check_arrangements<TestType>(comm, std::string(TestType::name) + ", rank " +
                                                           std::to_string(comm.rank()) + " of " + std::to_string(size) +
                                                           name_of(tuning));
                },
                tuning);
        }
    SUCCEED();
}

TEST_CASE("lists and axes work where ranks share no memory") {
    for (const int size : {2, 3, 5})
        on_ranks(
            size,
            [&](auto& base) {
                remote comm(base);
                check_arrangements<matrices>(comm, std::to_string(size) + " ranks, remote");
            },
            roomy);
    SUCCEED();
}

TEST_CASE("short calls whose blocks lie anywhere are remembered, and look again at where the blocks lie") {
    for (const int size : {2, 3})
        on_ranks(size, [&](auto& comm) {
            const auto thrice = [&](const std::string& what, auto check) {
                const auto where = what + ", " + std::to_string(size) + " ranks";
                std::uint64_t before = 0;
                for (int time = 0; time < 3; ++time) {
                    if (time == 2) before = short_calls_of(comm);
                    check(where + ", time " + std::to_string(time));
                }
                expect(short_calls_of(comm) > before, where + ": nothing is remembered");
            };
            const auto ranks = static_cast<std::size_t>(size);
            const std::vector<std::size_t> lengths{ranks - 1, 0, ranks, ranks + 1};
            thrice("axes", [&](const auto& where) { check_axes<matrices>(comm, 3, where); });
            thrice("split and concat",
                   [&](const auto& where) { check_split_and_concat<matrices>(comm, 3, true, where); });
            thrice("uneven split and concat",
                   [&](const auto& where) { check_split_and_concat<matrices>(comm, 3, false, where); });
            thrice("displacements", [&](const auto& where) { check_displacements<matrices>(comm, 1, where); });
            thrice("shards", [&](const auto& where) {
                check_list_of_blocks<matrices>(comm, lengths, &allfold::partition::even, where);
            });
        });
    SUCCEED();
}

TEST_CASE("lists and axes work on threads of processes") {
    on_hierarchies_of_few([](auto& comm, const std::string& where) { check_arrangements<matrices>(comm, where); });
    SUCCEED();
}

TEST_CASE("lists and axes work in a team of threads of processes") {
    on_threads_of_threads(3, 2, [](auto& comm) {
        const auto team = allfold::subset(comm, {4, 1, 0, 3, 5});
        if (team) check_arrangements<matrices>(*team, "rank " + std::to_string(team->rank()) + " of a team");
    });
    SUCCEED();
}

TEST_CASE("long lists are folded in windows, and where they lie") {
    const std::vector<std::size_t> lengths{fewer_if_sanitized(20000U, 5000U), 77, fewer_if_sanitized(9000U, 2000U)};
    const auto check = [&lengths](auto& comm, const std::string& where) {
        check_list<matrices>(comm, lengths, where);
        check_list_of_blocks<matrices>(comm, lengths, &allfold::partition::ceil, where);
    };
    for (const int size : {2, 3}) on_ranks(size, [&](auto& comm) { check(comm, std::to_string(size) + " ranks"); });
    on_threads_of_threads(2, 2, [&](auto& comm) { check(comm, "threads of threads"); });
    SUCCEED();
}

TEST_CASE("long tensors that lie between those of the output are folded where they lie") {
    constexpr std::size_t n = 20000;
    on_ranks(2, [](auto& comm) {
        std::vector<int> memory(4 * n, comm.rank() + 1);
        const auto at = [&](std::size_t which) { return std::span(memory).subspan(which * n, n); };
        std::size_t folded_there = 0;  // how often elements of this rank's memory have been folded
        const auto add = allfold::commutative([&](const int& a, const int& b) {
            for (const int* each : {&a, &b})
                if (std::less_equal<>()(memory.data(), each) && std::less<>()(each, memory.data() + memory.size()))
                    ++folded_there;
            return a + b;
        });
        allfold::all_reduce(comm, tensors{at(0), at(2)}, tensors{at(1), at(3)}, add);
        expect(folded_there != 0, "a copy of the lists has been folded");
        for (std::size_t i = 0; i < memory.size(); ++i)
            expect(memory[i] == (i / n % 2 == 0 ? comm.rank() + 1 : 3), "sums in their places");
    });
    SUCCEED();
}

TEST_CASE("one rank's tensor has gaps, another one's has none") {
    for (const std::size_t width : {64U, 30000U}) {
        const auto check = [width](auto& comm) {
            const std::size_t gap = comm.rank() % 2 == 0 ? 0 : 5;
            std::vector<int> x(4 * (width + gap), -1), y(4 * width), block(4 * width);
            const allfold::tensor<int, 2> view(x.data(), {4, width}, {static_cast<std::ptrdiff_t>(width + gap), 1});
            for (std::size_t i = 0; i < 4; ++i)
                for (std::size_t j = 0; j < width; ++j) view(i, j) = comm.rank() + 1;
            allfold::all_reduce(comm, view, y, sum());
            const int total = comm.size() * (comm.size() + 1) / 2;
            expect(y == std::vector<int>(4 * width, total), "all_reduce");
            const auto blocks = allfold::partition::even(4 * width, comm.size());
            block.assign(blocks.extent(comm.rank()), 0);
            allfold::reduce_scatter(comm, view, block, sum());
            expect(block == std::vector<int>(block.size(), total), "reduce_scatter");
            std::vector<int> all(4 * width * static_cast<std::size_t>(comm.size()));
            allfold::all_gather(comm, view, all);
            for (std::size_t i = 0; i < all.size(); ++i)
                expect(all[i] == static_cast<int>(i / (4 * width)) + 1, "all_gather");
            allfold::broadcast(comm, view, allfold::root{1});
            for (std::size_t i = 0; i < 4; ++i)
                for (std::size_t j = 0; j < width; ++j) expect(view(i, j) == 2, "broadcast");
            if (gap > 0) expect(x[width] == -1, "between the rows");
        };
        for (const int size : {2, 3, 8}) on_ranks(size, check, impatient);
        on_threads_of_threads(2, 2, check);
    }
    SUCCEED();
}

TEST_CASE("operations of lists are started and prepared; the lists may be gone") {
    on_all_kinds_of_ranks([](auto& comm) {
        std::vector<float> a(500, 1.0F), b(77, 2.0F);
        auto all = allfold::all_reduce.prepare(comm, tensors{a, b}, sum());
        const auto ranks = static_cast<float>(comm.size());
        for (int turn = 1; turn <= 3; ++turn) {
            all();
            const float factor = std::pow(ranks, static_cast<float>(turn));
            expect(a.back() == factor && b.front() == 2 * factor, "prepared");
        }
        std::vector<float> shard(allfold::partition::even(500, comm.size()).extent(comm.rank()));
        auto started = allfold::reduce_scatter.start(comm, tensors{a}, tensors{shard}, allfold::mean());
        started.wait();
        expect(shard.back() == ranks * ranks * ranks, "started");
    });
    SUCCEED();
}

TEST_CASE("elements that lie in several places, and input that overlaps the output, are copied first") {
    for (const std::size_t width : {100U, 60000U})  // copied into messages, or read in place
        on_ranks(3, [width](auto& comm) {
            const auto value = [](std::size_t i) { return 3 * static_cast<int>(i) + 3; };
            std::vector<int> memory(4 * width), out(3 * width);
            std::iota(memory.begin(), memory.end(), comm.rank());
            const allfold::tensor<int, 2> repeated(memory.data(), {3, width}, {0, 1});
            allfold::all_reduce(comm, repeated, out, sum());
            for (std::size_t i = 0; i < 3 * width; ++i) expect(out[i] == value(i % width), "repeated");
            allfold::all_reduce(comm, repeated, sum());
            for (std::size_t i = 0; i < width; ++i) expect(memory[i] == value(i), "repeated, in place");

            std::iota(memory.begin(), memory.end(), comm.rank());
            const auto stride = static_cast<std::ptrdiff_t>(width + width / 2);
            const allfold::tensor<int, 2> upper(memory.data(), {2, width}, {stride, 1}),
                lower(memory.data() + width / 2, {2, width}, {stride, 1});
            allfold::all_reduce(comm, upper, lower, sum());
            for (std::size_t i = 0; i < 2; ++i)
                for (std::size_t j = 0; j < width; ++j)
                    expect(lower(i, j) == value(i * (width + width / 2) + j), "overlapping");
        });
    SUCCEED();
}

namespace {

/// 8 elements as 2 rows.
auto square(std::vector<int>& x) { return allfold::tensor<int, 2>(x.data(), {2, 4}); }
/// Every rank must fail with `code`, or because of a rank that does, with a text that contains `words`.
template <class Call>
void require_error(errc code, const char* words, Call call) {
    const auto outcomes = outcomes_on_ranks(2, [&](auto& comm) {
        std::vector<int> x(8, comm.rank()), y(3, 7);
        const auto before = y;
        try {
            call(comm, x, y);
        } catch (...) {
            expect(y == before, "the output has been written");
            throw;
        }
    });
    bool was_found = false;
    for (const outcome& each : outcomes) {
        INFO(each.text);
        CHECK((each.code == code || each.code == errc::peer_failed));
        CHECK(each.says(words));
        was_found = was_found || each.code == code;
    }
    CHECK(was_found);
}

}  // namespace

TEST_CASE("one rank has blocks at displacements, and others have them one after another") {
    on_all_kinds_of_ranks([](auto& comm) {
        const auto ranks = static_cast<std::size_t>(comm.size());
        const bool has_gaps = comm.rank() == 0;
        for (int turn = 0; turn < 6; ++turn) {
            std::vector<std::size_t> lengths(ranks, 2), first;
            lengths[ranks - 1] += static_cast<std::size_t>(turn % 2);
            for (std::size_t r = 0; r < ranks; ++r) first.push_back(3 * r);
            const auto blocks = allfold::partition::sizes(lengths);
            const std::vector<int> own(blocks.extent(comm.rank()), comm.rank());
            std::vector<int> all(has_gaps ? 3 * ranks : blocks.total(), -1), expected(all);
            for (std::size_t r = 0; r < ranks; ++r)
                for (std::size_t i = 0; i < lengths[r]; ++i)
                    expected[(has_gaps ? first[r] : 2 * r) + i] = static_cast<int>(r);
            if (has_gaps)
                allfold::all_gather(comm, own, all, blocks, allfold::displacements(first));
            else
                allfold::all_gather(comm, own, all, blocks);
            expect(all == expected, "all_gather, turn " + std::to_string(turn));
        }
    });
    SUCCEED();
}

TEST_CASE("lists of blocks, ranks and places are made from any integers, characters too") {
    CHECK(allfold::shards(std::vector<char>{1, 0}).blocks() == std::vector<int>{1, 0});
    CHECK(allfold::shards(std::vector<long long>{1LL << 32}).blocks() == std::vector<int>{-1});
    CHECK(allfold::destinations(std::vector<unsigned char>{2, 1}).ranks() == std::vector<int>{2, 1});
    CHECK(allfold::displacements(std::vector<char>{4, 0}).elements() == std::vector<std::size_t>{4, 0});
    CHECK_THROWS_WITH(allfold::displacements(std::vector<signed char>{-4}), "displacements: -4 is below 0");
}

TEST_CASE("ranks that know only their own block learn which is whose with one all_gather") {
    on_all_kinds_of_ranks([](auto& comm) {
        const int own = (comm.size() - comm.rank()) % comm.size();
        std::vector<int> list(static_cast<std::size_t>(comm.size())), x;
        for (int r = 1; r <= comm.size(); ++r) x.push_back(10 * r);
        allfold::all_gather(comm, own, list);
        int block = 0;
        allfold::reduce_scatter(comm, x, block, sum(), allfold::shards(list));
        expect(block == 10 * comm.size() * (own + 1), "the sum of the block that this rank has asked for");
    });
    SUCCEED();
}

TEST_CASE("wrong lists, axes and shards are rejected by every rank that can detect them") {
    require_error(errc::bad_argument, "axis 1 of a tensor with 1 axis",
                  [](auto& comm, auto& x, auto& y) { allfold::reduce_scatter(comm, x, y, sum(), allfold::axis{1}); });
    require_error(errc::bad_partition, "the partition adds up to 7, but axis 0 has extent 8",
                  [](auto& comm, auto& x, auto& y) {
                      allfold::reduce_scatter(comm, x, y, sum(), allfold::axis{0}, allfold::partition::even(7, 2));
                  });
    require_error(errc::bad_rank, "shard 1 is assigned to both rank 0 and rank 1", [](auto& comm, auto& x, auto& y) {
        allfold::reduce_scatter(comm, x, y, sum(), allfold::shards{1, 1});
    });
    require_error(errc::bad_rank, "shard 2 of rank 0 is not in [0, 2)", [](auto& comm, auto& x, auto& y) {
        allfold::reduce_scatter(comm, x, y, sum(), allfold::shards{2, 1});
    });
    require_error(errc::bad_argument, "the list of shards has 3 entries for 2 ranks",
                  [](auto& comm, auto& x, auto& y) { allfold::all_gather(comm, x, y, allfold::shards{0, 1, 2}); });
    const auto cut = [](int first, int second) { return allfold::partition::sizes(std::vector{first, second}); };
    require_error(errc::bad_partition, "block 1 of 3 elements from element 6 exceeds the operand of 8 elements",
                  [cut](auto& comm, auto& x, auto& y) {
                      allfold::all_gather(comm, y, x, allfold::displacements{0, 6}, cut(3, 3));
                  });
    require_error(errc::bad_partition, "blocks 1 and 0 overlap at element 4", [cut](auto& comm, auto& x, auto& y) {
        allfold::all_gather(comm, y, x, allfold::displacements{4, 2}, cut(3, 3));
    });
    const outcome negative = outcome_of([] { static_cast<void>(allfold::displacements(std::vector{0, -1})); });
    CHECK((negative.code == errc::bad_argument && negative.says("displacements: -1 is below 0")));
    require_error(errc::bad_partition, "a partition of 2 blocks and 3 displacements for 2 ranks",
                  [cut](auto& comm, auto& x, auto& y) {
                      allfold::all_gather(comm, y, x, allfold::displacements{0, 3, 6}, cut(3, 3));
                  });
    require_error(
        errc::bad_argument, "the output has 1 tensors, but the list that is cut has 2",
        [](auto& comm, auto& x, auto& y) { allfold::reduce_scatter(comm, tensors{x, x}, tensors{y}, sum()); });
    require_error(errc::bad_partition, "tensor 1 of 8 elements is cut into 1 blocks of 8 elements in total",
                  [](auto& comm, auto& x, auto& y) {
                      const auto in_one = [](std::size_t n, int blocks) {
                          return n == 8 ? allfold::partition::even(n, 1) : allfold::partition::even(n, blocks);
                      };
                      std::vector<int> others(6);
                      const auto list = tensors{others, x}.by(in_one);
                      allfold::reduce_scatter(comm, list, tensors{y, y}, sum());
                  });
    require_error(errc::mismatch, "tensor 0 has 3 elements, but 4 are needed",
                  [](auto& comm, auto& x, auto& y) { allfold::reduce_scatter(comm, tensors{x}, tensors{y}, sum()); });
    require_error(errc::mismatch, "cuts along axis 0", [](auto& comm, auto& x, auto&) {
        std::vector<int> half(4);
        allfold::reduce_scatter(comm, square(x), half, sum(), allfold::axis{std::size_t(comm.rank())});
    });
    require_error(errc::mismatch, "along axis 1", [](auto& comm, auto& x, auto&) {
        const std::vector<int> half(4);
        allfold::all_gather(comm, half, square(x), allfold::axis{std::size_t(comm.rank())});
    });
    require_error(errc::mismatch, "axis whose preceding extents have product ", [](auto& comm, auto& x, auto&) {
        std::vector<int> half(4);
        const std::size_t rows = comm.rank() == 0 ? 2 : 1;
        allfold::reduce_scatter(comm, allfold::tensor<int, 2>(x.data(), {rows, 8 / rows}), half, sum(),
                                allfold::axis{1});
    });
    for (const bool is_split : {false, true})
        require_error(errc::mismatch, "concatenates along axis 0", [is_split](auto& comm, auto& x, auto&) {
            std::vector<int> all(8);
            const auto own = std::size_t(comm.rank());
            allfold::all_to_all(comm, square(x), square(all), allfold::split_axis{is_split ? own : 1},
                                allfold::concat_axis{is_split ? 0 : own});
        });
    require_error(errc::bad_argument, "axis 2 of a tensor with 2 axes", [](auto& comm, auto& x, auto&) {
        std::vector<int> all(8);
        allfold::all_to_all(comm, square(x), square(all), allfold::split_axis{2}, allfold::concat_axis{0});
    });
    require_error(errc::bad_argument, "axis 3 of a tensor with 2 axes", [](auto& comm, auto& x, auto&) {
        std::vector<int> all(8);
        allfold::all_to_all(comm, square(x), square(all), allfold::split_axis{1}, allfold::concat_axis{3});
    });
    require_error(errc::overlap, "tensors of the output share memory",
                  [](auto& comm, auto& x, auto&) { allfold::all_reduce(comm, tensors{x, x}, sum()); });
    require_error(errc::bad_partition, "the sizes add up to 7 elements, but the input has 8",
                  [](auto& comm, auto& x, auto& y) { allfold::all_to_all(comm, x, std::vector{3, 4}, y); });
    require_error(errc::bad_partition, "there are 3 sizes for 2 ranks",
                  [](auto& comm, auto& x, auto& y) { allfold::all_to_all(comm, x, std::vector{3, 4, 1}, y); });
    require_error(errc::mismatch, "the output has room for 3 elements, but 8 arrive",
                  [](auto& comm, auto& x, auto& y) { allfold::all_to_all(comm, x, std::vector{4, 4}, std::span(y)); });
    require_error(errc::bad_partition, "cannot be divided into 2 blocks of equal length",
                  [](auto& comm, auto& x, auto&) {
                      std::vector<int> out(9);
                      allfold::all_to_all(comm, std::span(x).first(7), out, allfold::split_axis{0});
                  });
}

namespace {

/// A list of tensors of these lengths, one after another in memory.
tensors<int> list_in(std::vector<int>& memory, std::initializer_list<std::size_t> lengths) {
    tensors<int> list;
    for (std::size_t first = 0; const std::size_t length : lengths)
        list.add(std::span(memory).subspan(std::exchange(first, first + length), length));
    return list;
}
/// Rank 1 of three makes a different call: every rank must fail with a text that contains all `words`, whichever rank
/// finds the difference. The last argument of `call` says whether it is rank 1's call.
template <class Call>
void require_difference(std::initializer_list<const char*> words, Call call) {
    const auto outcomes = outcomes_on_ranks(3, [&](auto& comm) {
        std::vector<int> x(24, comm.rank());
        call(comm, x, comm.rank() == 1);
    });
    bool was_found = false;
    for (const outcome& each : outcomes) {
        INFO(each.text);
        CHECK((each.code == errc::mismatch || each.code == errc::peer_failed));
        CHECK(each.says("rank 1 "));
        CHECK(std::ranges::all_of(words, [&](const char* word) { return each.says(word); }));
        was_found = was_found || each.code == errc::mismatch;
    }
    CHECK(was_found);
}

}  // namespace

TEST_CASE("if lists differ, the first different tensor or shard is named, with both values") {
    require_difference({"passes 3", "passes 2", " tensors"}, [](auto& comm, auto& x, bool is_other) {
        allfold::all_reduce(comm, is_other ? list_in(x, {4, 4}) : list_in(x, {4, 2, 2}), sum());
    });
    require_difference({"tensor 1 of 3 with", "with 3", "with 2"}, [](auto& comm, auto& x, bool is_other) {
        allfold::all_reduce(comm, is_other ? list_in(x, {4, 3, 2}) : list_in(x, {4, 2, 3}), sum());
    });
    require_difference({"tensor 2 of 3 with", "with 12", "with 9"}, [](auto& comm, auto& x, bool is_other) {
        allfold::reduce_scatter(comm, is_other ? list_in(x, {6, 3, 9}) : list_in(x, {6, 3, 12}), sum());
    });
    require_difference({"tensor 0 of 2 with", "with 3", "with 9"}, [](auto& comm, auto& x, bool is_other) {
        std::vector<int> own(4, comm.rank());
        const std::size_t first = is_other ? 1 : 3;
        allfold::all_gather(comm, list_in(own, {first, 4 - first}), list_in(x, {3 * first, 12 - 3 * first}));
    });
    require_difference({"assigns rank 0 shard", "shard 1", "shard 2"}, [](auto& comm, auto& x, bool is_other) {
        std::vector<int> shard(8);
        allfold::reduce_scatter(comm, x, shard, sum(), is_other ? allfold::shards{2, 1, 0} : allfold::shards{1, 2, 0});
    });
    require_difference({"assigns rank 1 shard", "shard 1", "shard 2"}, [](auto& comm, auto& x, bool is_other) {
        allfold::all_gather(comm, list_in(x, {3, 6}), is_other ? allfold::shards{0, 2, 1} : allfold::shards{0, 1, 2});
    });
    for (const bool is_input : {true, false})  // the block of a rank for itself is as long as its place
        require_difference({is_input ? "input tensor 0 of 2 with" : "output tensor 0 of 2 with", "with 3", "with 6"},
                           [=](auto& comm, auto& x, bool is_other) {
                               std::vector<int> all(24);
                               const bool sends_other = is_other && is_input, gets_other = is_other && !is_input;
                               allfold::all_to_all(comm, sends_other ? list_in(x, {6, 3}) : list_in(x, {3, 6}),
                                                   gets_other ? list_in(all, {6, 3}) : list_in(all, {3, 6}));
                           });
}

TEST_CASE("a difference beyond the tensors that fit into a text is reported as such") {
    require_difference({"tensor lists of different lengths"}, [](auto& comm, auto&, bool is_other) {
        std::vector<int> memory(400, comm.rank());
        tensors<int> list;
        for (std::size_t i = 0; i < 198; ++i) list.add(std::span(memory).subspan(2 * i, 2));
        const std::size_t length = is_other ? 1 : 3;
        list.add(std::span(memory).subspan(396, length)).add(std::span(memory).subspan(396 + length));
        allfold::all_reduce(comm, list, sum());
    });
}
