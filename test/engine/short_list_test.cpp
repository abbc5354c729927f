// SPDX-License-Identifier: BSL-1.0
#include "allfold/engine/short_list.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective.hpp"
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
