// SPDX-License-Identifier: BSL-1.0
#include "allfold/engine/short_list.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective.hpp"
#include "allfold/collective/detail/arrangement.hpp"
#include "allfold/data/partition.hpp"
#include "allfold/data/tensor_view.hpp"
#include "allfold/data/tensors.hpp"
#include "allfold/error.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/short_calls.hpp"

/// @file
/// Repeated calls with lists: what may differ from the lists of the last call, and what must not.

using namespace test;
using communicator = allfold::thread_communicator;

namespace {

/// A list of tensors of these lengths, the last one first in memory.
allfold::tensors<int> backwards(std::vector<int>& memory, const std::vector<std::size_t>& lengths) {
    allfold::tensors<int> all;
    std::size_t end = memory.size();
    for (const std::size_t each : lengths) {
        end -= each;
        all.add(std::span(memory).subspan(end, each));
    }
    return all;
}
std::vector<std::size_t> shards_of(const std::vector<std::size_t>& lengths, const communicator& comm) {
    std::vector<std::size_t> own;
    for (const std::size_t each : lengths)
        own.push_back(allfold::partition::even(each, comm.size()).extent(comm.rank()));
    return own;
}

/// Checks reduce_scatter and all_gather with lists, with a list and one tensor, and in place: three times each.
void check_cut_lists(communicator& comm, const std::vector<std::size_t>& lengths, bool is_remembered) {
    const int P = comm.size();
    const std::size_t n = std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
    const auto own = shards_of(lengths, comm);
    std::vector<int> whole(n), shard(std::accumulate(own.begin(), own.end(), std::size_t{0})), sums(n);
    for (int turn = 0; turn < 3; ++turn) {
        const auto fill = [&] {
            for (std::size_t i = 0; i < n; ++i) whole[i] = (comm.rank() + 1) * static_cast<int>(i + 1) + turn;
        };
        const auto are_sums = [&](const std::vector<int>& all) {
            for (std::size_t i = 0; i < n; ++i)
                if (all[i] != static_cast<int>(i + 1) * P * (P + 1) / 2 + P * turn) return false;
            return true;
        };
        const std::uint64_t before = short_calls_of(comm);
        fill();
        const auto in = backwards(whole, lengths), out = backwards(sums, lengths);
        const auto between = backwards(shard, own);
        allfold::reduce_scatter(comm, in, between, allfold::sum());
        allfold::all_gather(comm, between, out);
        expect(are_sums(sums), "lists: wrong sums");
        std::fill(sums.begin(), sums.end(), 0);
        allfold::reduce_scatter(comm, in, shard, allfold::sum());
        allfold::all_gather(comm, shard, out);
        expect(are_sums(sums), "lists and one tensor: wrong sums");
        allfold::reduce_scatter(comm, in, allfold::sum());
        allfold::all_gather(comm, in);
        expect(are_sums(whole), "in place: wrong sums");
        if (turn > 0) expect(short_calls_of(comm) == before + (is_remembered ? 6 : 0), "which are remembered");
    }
}

template <class Wrong>
std::vector<outcome> outcomes_of_wrong_call(Wrong wrong) {
    return outcomes_on_ranks(2, [&](auto& comm) {
        std::vector<int> whole(12, 1), shard(6);
        const auto all = backwards(whole, {8, 4});
        for (int turn = 0; turn < 3; ++turn) {
            allfold::reduce_scatter(comm, all, backwards(shard, {4, 2}), allfold::sum());
            allfold::all_gather(comm, backwards(shard, {4, 2}), all);
        }
        wrong(comm, whole, shard);
    });
}

/// A matrix of this many rows, which are `pitch` elements apart.
allfold::tensor<int, 2> matrix(std::vector<int>& memory, std::size_t rows, std::size_t columns, std::size_t pitch) {
    memory.resize(rows * pitch);
    return {memory.data(), {rows, columns}, {static_cast<std::ptrdiff_t>(pitch), 1}};
}

/// Checks reduce_scatter and all_gather along an axis of a matrix, out of place and in place: three times each.
template <class... Blocks>
void check_cut_matrix(communicator& comm, std::size_t axis, std::array<std::size_t, 2> extents, bool is_remembered,
                      const Blocks&... blocks) {
    const int P = comm.size();
    const allfold::axis along{axis};
    const allfold::partition cut = [&] {
        if constexpr (sizeof...(blocks) == 0)
            return allfold::partition::even(extents[axis], P);
        else
            return (blocks, ...);
    }();
    const std::size_t rows = extents[0], columns = extents[1], all = rows * columns;
    std::vector<int> from, to, shard(all / extents[axis] * cut.extent(comm.rank()));
    for (int turn = 0; turn < 3; ++turn) {
        const std::size_t pitch = columns + static_cast<std::size_t>(turn);
        const auto in = matrix(from, rows, columns, pitch), out = matrix(to, rows, columns, pitch);
        const auto value = [&](std::size_t i) { return (comm.rank() + 1) * static_cast<int>(i + 1) + turn; };
        std::fill(from.begin(), from.end(), -1);
        std::fill(to.begin(), to.end(), -1);
        for (std::size_t i = 0; i < all; ++i) in(i / columns, i % columns) = value(i);
        const auto are_sums = [&](const allfold::tensor<int, 2>& x, const std::vector<int>& memory) {
            for (std::size_t i = 0; i < memory.size(); ++i) {
                const std::size_t row = i / pitch, column = i % pitch;
                const int sum = static_cast<int>(row * columns + column + 1) * P * (P + 1) / 2 + P * turn;
                if (memory[i] != (column < columns ? sum : -1)) return false;
            }
            return x.data() == memory.data();
        };
        const std::uint64_t before = short_calls_of(comm);
        allfold::reduce_scatter(comm, in, shard, allfold::sum(), along, blocks...);
        allfold::all_gather(comm, shard, out, along, blocks...);
        expect(are_sums(out, to), "a matrix: wrong sums");
        allfold::reduce_scatter(comm, in, allfold::sum(), along, blocks...);
        allfold::all_gather(comm, in, along, blocks...);
        expect(are_sums(in, from), "a matrix in place: wrong sums");
        if (turn > 0) expect(short_calls_of(comm) == before + (is_remembered ? 4 : 0), "which are remembered");
    }
}

/// The addresses of all elements, in block order.
template <class Pieces>
std::vector<const int*> addresses(const Pieces& pieces) {
    std::vector<const int*> all;
    for (const auto& each : pieces)
        for (const int& element : each) all.push_back(&element);
    return all;
}

}  // namespace

TEST_CASE("lists that are cut are remembered, however they lie, in and out of place") {
    for (const int P : {2, 3, 5})
        on_ranks(P, [](communicator& comm) {
            check_cut_lists(comm, {4, 7}, true);
            check_cut_lists(comm, {7, 4}, true);
            check_cut_lists(comm, {5, 5, 5, 1, 5, 1}, true);
            check_cut_lists(comm, {9}, true);
            check_cut_lists(comm, {0, 3, 0, 8}, true);
            check_cut_lists(comm, std::vector<std::size_t>(33, 7), false);
        });
    SUCCEED();
}

TEST_CASE("a remembered list is cut anew: its tensors may lie in several pieces each") {
    on_ranks(2, [](communicator& comm) {
        std::array<int, 16> memory{};
        std::array<int, 8> sums{};
        std::array<int, 4> shard{};
        for (int turn = 0; turn < 4; ++turn) {
            const bool has_gaps = turn > 1;  // there are gaps between rows of two, and as many elements
            const std::ptrdiff_t stride = has_gaps ? 4 : 2;
            const allfold::tensor<int, 2> rows(memory.data(), {3, 2}, {stride, 1});
            const std::span<int> last = std::span(memory).subspan(14);
            for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<int>(i) + comm.rank();
            allfold::reduce_scatter(comm, allfold::tensors(rows, last), shard, allfold::sum());
            allfold::all_gather(comm, shard, allfold::tensors(std::span(sums).first(6), std::span(sums).subspan(6)));
            for (std::size_t i = 0; i < 6; ++i)
                expect(sums[i] == 2 * static_cast<int>(i / 2 * static_cast<std::size_t>(stride) + i % 2) + 1, "rows");
            expect(sums[6] == 29 && sums[7] == 31, "the last tensor");
        }
    });
    SUCCEED();
}

TEST_CASE("a remembered list is looked at again: its shards must be as long as its blocks") {
    const auto scattered = outcomes_of_wrong_call([](auto& comm, auto& whole, auto& shard) {
        allfold::reduce_scatter(comm, backwards(whole, {8, 4}), backwards(shard, {3, 3}), allfold::sum());
    });
    const auto gathered = outcomes_of_wrong_call([](auto& comm, auto& whole, auto& shard) {
        allfold::all_gather(comm, backwards(shard, {3, 3}), backwards(whole, {8, 4}));
    });
    for (const auto& outcomes : {scattered, gathered})
        for (const auto& each : outcomes) CHECK(each.says("tensor 0 has 3 elements, but 4 are needed"));
}

TEST_CASE("a remembered list is looked at again: the blocks of the tensors must not share memory") {
    const auto outcomes = outcomes_of_wrong_call([](auto& comm, auto& whole, auto& shard) {
        const std::span<int> all(whole);
        allfold::all_gather(comm, backwards(shard, {4, 2}), allfold::tensors(all.first(8), all.subspan(6, 4)));
    });
    for (const auto& each : outcomes) CHECK(each.says("tensors of the output share memory"));
}

TEST_CASE("a list is cut into blocks of what belongs to them of each tensor") {
    std::vector<int> memory(31);
    const std::vector<std::size_t> lengths{5, 5, 0, 1, 20};
    const auto list = backwards(memory, lengths).by(&allfold::partition::ceil);
    constexpr int P = 3;
    const allfold::detail::cut_list<int> cut(list, P);
    REQUIRE(cut.is_plain());
    for (int b = 0; b < P; ++b) {
        std::vector<std::size_t> block;
        for (const std::size_t each : lengths) block.push_back(allfold::partition::ceil(each, P).extent(b));
        CHECK(cut.has_block(b, block));
        CHECK(cut.extents()[static_cast<std::size_t>(b)] ==
              std::accumulate(block.begin(), block.end(), std::size_t{0}));
        ++block.back();
        CHECK_FALSE(cut.has_block(b, block));
    }
    CHECK_FALSE(allfold::detail::cut_list<int>(list, 7).is_plain());  // more pieces than can be remembered
}

TEST_CASE("tensors that are cut along an axis are remembered, in and out of place, whatever lies between their rows") {
    for (const int P : {2, 3, 5})
        on_ranks(P, [](communicator& comm) {
            const auto columns = static_cast<std::size_t>(comm.size());
            check_cut_matrix(comm, 1, {6, 7}, true);
            check_cut_matrix(comm, 0, {7, 6}, true);
            check_cut_matrix(comm, 0, {1, 6}, true);
            check_cut_matrix(comm, 1, {4, 2 * columns}, true, allfold::partition::ceil(2 * columns, comm.size()));
            std::vector<std::size_t> uneven(columns, 0);
            uneven.back() = 3;
            check_cut_matrix(comm, 1, {5, 3}, true, allfold::partition::sizes(uneven));
            check_cut_matrix(comm, 1, {17, 10}, false);
        });
    SUCCEED();
}

TEST_CASE("a tensor that is cut along an axis has the blocks of one that is arranged, and the same mark") {
    constexpr unsigned seed = 3;
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto draw = [&random](std::size_t least, std::size_t most) {
        return std::uniform_int_distribution<std::size_t>(least, most)(random);
    };
    std::vector<int> memory(10'000);
    int plain = 0, padded = 0;
    for (int i = 0; i < 2000; ++i) {
        std::array<std::size_t, 3> extents{draw(1, 4), draw(1, 4), draw(1, 6)};
        std::array<std::ptrdiff_t, 3> strides{};
        std::size_t step = 1;
        for (std::size_t axis = 3; axis-- > 0;) {
            strides[axis] = static_cast<std::ptrdiff_t>(step);
            step = step * extents[axis] + (draw(0, 3) == 0 ? draw(1, 3) : 0);
        }
        const allfold::tensor<int, 3> x(memory.data(), extents, strides);
        const allfold::axis along{draw(0, 2)};
        const int ranks = static_cast<int>(draw(1, 5));
        const auto blocks = allfold::partition::ceil(extents[along.number], ranks);
        const allfold::partition* const given = draw(0, 1) == 0 ? nullptr : &blocks;
        const allfold::detail::cut_tensor<int> cut(x, along.number, given, ranks);
        if (!cut.is_plain()) continue;
        ++plain;
        padded += allfold::detail::is_contiguous(x) ? 0 : 1;
        const auto made = allfold::detail::arrange_along({"reduce_scatter", 0, ranks}, x, along.number, given, nullptr);
        const allfold::detail::few_pieces<int> pieces(cut);
        std::vector<std::span<const int>> found;
        pieces.memory().pieces->for_each([&found](const std::byte* first, std::size_t rows) {
            found.emplace_back(reinterpret_cast<const int*>(first), rows);
        });
        const auto lie = addresses(found);
        REQUIRE(lie == addresses(made.list.pieces()));
        REQUIRE(pieces.rows() == lie.size());
        REQUIRE(pieces.range(0).begin == reinterpret_cast<const std::byte*>(*std::ranges::min_element(lie)));
        REQUIRE(pieces.range(0).end == reinterpret_cast<const std::byte*>(*std::ranges::max_element(lie) + 1));
        for (int b = 0; b < ranks; ++b) REQUIRE(cut.extents()[static_cast<std::size_t>(b)] == made.blocks.extent(b));
        REQUIRE(allfold::detail::mark_of_cut(cut).value ==
                allfold::detail::mark_of_lists(x, nullptr, &made.blocks, &along).value);
    }
    CHECK(plain > 1000);
    CHECK(padded > 200);
}

TEST_CASE(
    "a tensor is not cut in place along an axis that it lacks, or into blocks that do not fit, nor if its runs "
    "are many, irregular or not apart") {
    std::vector<int> memory(1000);
    const auto is_plain = [&](std::array<std::size_t, 3> extents, std::array<std::ptrdiff_t, 3> strides,
                              std::size_t axis, const allfold::partition* blocks = nullptr, int ranks = 2) {
        const allfold::tensor<int, 3> x(memory.data(), extents, strides);
        return allfold::detail::cut_tensor<int>(x, axis, blocks, ranks).is_plain();
    };
    CHECK(is_plain({2, 3, 4}, {12, 4, 1}, 2));
    CHECK(is_plain({2, 3, 4}, {15, 5, 1}, 2));        // every row is padded
    CHECK_FALSE(is_plain({2, 3, 4}, {16, 5, 1}, 2));  // and every matrix by more
    CHECK(is_plain({2, 3, 4}, {12, 4, 1}, 1));
    CHECK_FALSE(is_plain({2, 3, 4}, {15, 5, 1}, 1));  // a block would have gaps
    CHECK_FALSE(is_plain({2, 3, 4}, {12, 4, 1}, 3));
    CHECK_FALSE(is_plain({2, 3, 4}, {9, 3, 1}, 2));  // rows overlap
    CHECK_FALSE(is_plain({2, 3, 4}, {-12, 4, 1}, 1));
    CHECK_FALSE(is_plain({2, 3, 4}, {0, 4, 1}, 1));
    CHECK_FALSE(is_plain({2, 0, 4}, {0, 4, 1}, 2));
    CHECK(is_plain({4, 4, 4}, {16, 4, 1}, 2, nullptr, 2));
    CHECK_FALSE(is_plain({4, 4, 4}, {16, 4, 1}, 2, nullptr, 3));
    const auto three = allfold::partition::even(4, 3), five = allfold::partition::even(5, 2);
    const allfold::tensor<int, 3> nowhere(nullptr, {2, 3, 4});
    CHECK_FALSE(allfold::detail::few_pieces<int>(allfold::detail::cut_tensor<int>(nowhere, 2, nullptr, 2)).is_plain());
    CHECK_FALSE(is_plain({2, 3, 4}, {12, 4, 1}, 2, &three));
    CHECK_FALSE(is_plain({2, 3, 4}, {12, 4, 1}, 2, &five));
}

TEST_CASE("a call along an axis that is remembered is looked at again: operands, blocks and the axis") {
    const auto after_calls = [](auto wrong) {
        return outcomes_on_ranks(2, [&wrong](auto& comm) {
            std::vector<int> memory(24, 1), shard(12);
            const allfold::tensor<int, 2> x(memory.data(), {4, 6});
            for (int turn = 0; turn < 3; ++turn) allfold::all_gather(comm, shard, x, allfold::axis{1});
            wrong(comm, memory, shard);
        });
    };
    for (const auto& each : after_calls([](auto& comm, auto& memory, auto& shard) {
             allfold::all_gather(comm, shard, allfold::tensor<int, 2>(memory.data(), {4, 6}), allfold::axis{2});
         }))
        CHECK(each.says("axis 2 of a tensor with 2 axes"));
    for (const auto& each : after_calls([](auto& comm, auto& memory, auto&) {  // the input is part of the output
             for (int i = 0; i < 12; ++i) memory[static_cast<std::size_t>(i)] = 100 * comm.rank() + i;
             const std::span<int> part = std::span(memory).first(12);
             const allfold::tensor<int, 2> x(memory.data(), {4, 6});
             allfold::all_gather(comm, part, x, allfold::axis{1});
             for (int row = 0; row < 4; ++row)
                 for (int k = 0; k < 6; ++k) expect(x(row, k) == 100 * (k / 3) + 3 * row + k % 3, "not the inputs");
         }))
        CHECK(each.succeeded());
    for (const auto& each : after_calls([](auto& comm, auto& memory, auto& shard) {
             const std::size_t axis = comm.rank() == 0 ? 1 : 0;
             allfold::all_gather(comm, shard, allfold::tensor<int, 2>(memory.data(), {4, 6}), allfold::axis{axis});
         }))
        CHECK(each.says(", but rank "));
    for (const auto& each : after_calls([](auto& comm, auto& memory, auto& shard) {
             allfold::all_gather(comm, shard, allfold::tensor<int, 2>(memory.data(), {4, 6}), allfold::axis{1},
                                 allfold::partition::sizes({comm.rank() == 0 ? 2u : 3u, comm.rank() == 0 ? 4u : 3u}));
         }))
        CHECK_FALSE(each.succeeded());
}

TEST_CASE(
    "in a remembered exclusive scan of a list, rank 0 gets the identity in every tensor, and nothing between them") {
    on_ranks(2, [](communicator& comm) {
        for (int turn = 0; turn < 3; ++turn) {
            std::vector<int> memory(20, -7);
            const std::span<int> a = std::span(memory).first(4), b = std::span(memory).subspan(12, 4);
            std::ranges::fill(a, comm.rank() + 1);
            std::ranges::fill(b, comm.rank() + 1);
            allfold::exclusive_scan(comm, allfold::tensors(a, b), allfold::sum());
            for (std::size_t i = 0; i < memory.size(); ++i)
                expect(memory[i] == (i < 4 || (i >= 12 && i < 16) ? comm.rank() : -7), "turn " + std::to_string(turn));
        }
    });
    SUCCEED();
}
