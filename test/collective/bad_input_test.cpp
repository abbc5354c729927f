// SPDX-License-Identifier: BSL-1.0
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective.hpp"
#include "allfold/schedule/neighbour_exchange.hpp"
#include "test/support/catch.hpp"
#include "test/support/ranks.hpp"

using namespace allfold;
using test::outcomes_on_ranks;

namespace {

/// The rank in question throws `code` and says all `parts`; every other one throws as well.
void expect_error(const std::vector<test::outcome>& outcomes, std::size_t rank, errc code,
                  std::initializer_list<const char*> parts) {
    INFO(outcomes[rank].text);
    CHECK(outcomes[rank].code == code);
    for (const char* part : parts) {
        INFO(part);
        CHECK(outcomes[rank].says(part));
    }
    for (const auto& each : outcomes) {
        INFO(each.text);
        CHECK_FALSE(each.succeeded());
    }
}

}  // namespace

TEST_CASE("a root outside the ranks is named with the collective, and releases the others") {
    const auto outcomes = outcomes_on_ranks(3, [](auto& comm) {
        float x = 1;
        broadcast(comm, x, root{comm.rank() == 1 ? 7 : 0});
        barrier(comm);
    });
    expect_error(outcomes, 1, errc::bad_rank, {"broadcast", "rank 1", "7", "[0, 3)"});
    CHECK(outcomes[0].code == errc::peer_failed);
    CHECK(outcomes[0].says("rank 1 failed"));
}

TEST_CASE("different sizes are named with both ranks and both figures, and the data stays as it was") {
    for (const std::size_t n : {std::size_t{3}, std::size_t{100}, std::size_t{100000}}) {
        const auto outcomes = outcomes_on_ranks(2, [n](auto& comm) {
            std::vector<float> x(n + static_cast<std::size_t>(comm.rank()), 1.0f);
            try {
                all_reduce(comm, x, sum{});
            } catch (const error&) {
                for (float each : x)
                    if (each != 1.0f) throw std::logic_error("the data has been touched");
                throw;
            }
        });
        bool named = false;
        for (const auto& each : outcomes) {
            INFO(each.text);
            CHECK((each.code == errc::mismatch || each.code == errc::peer_failed));
            named |= each.code == errc::mismatch && each.says("all_reduce") && each.says("rank 0") &&
                     each.says("rank 1") && each.says(std::to_string(n)) && each.says(std::to_string(n + 1));
        }
        CHECK(named);
    }
}

TEST_CASE("different roots, collectives, element types and operators are named") {
    const auto expect = [](auto fn, const char* first, const char* second) {
        const auto outcomes = outcomes_on_ranks(2, fn);
        bool named = false;
        for (const auto& each : outcomes) {
            INFO(each.text);
            CHECK((each.code == errc::mismatch || each.code == errc::peer_failed));
            named |= each.code == errc::mismatch && each.says(first) && each.says(second);
        }
        INFO(outcomes[0].text << " / " << outcomes[1].text);
        CHECK(named);
    };
    expect(
        [](auto& comm) {
            std::array<int, 4> x{};
            reduce(comm, x, sum{}, root{comm.rank()});
            barrier(comm);
        },
        "reduce", "root");
    expect(
        [](auto& comm) {
            std::array<int, 4> x{};
            if (comm.rank() == 0)
                all_reduce(comm, x, sum{});
            else
                inclusive_scan(comm, x, sum{});
            barrier(comm);
        },
        "all_reduce", "inclusive_scan");
    expect(
        [](auto& comm) {
            std::array<int, 4> x{};
            std::array<float, 4> y{};
            if (comm.rank() == 0)
                all_reduce(comm, x, sum{});
            else
                all_reduce(comm, y, sum{});
        },
        "int", "float");
    expect(
        [](auto& comm) {
            std::array<int, 4> x{};
            if (comm.rank() == 0)
                all_reduce(comm, x, sum{});
            else
                all_reduce(comm, x, max{});
        },
        "sum", "max");
}

TEST_CASE("a partition that does not fit is named with both figures") {
    const auto wrong_sum = outcomes_on_ranks(2, [](auto& comm) {
        std::vector<int> in(10), out(4);
        reduce_scatter(comm, in, out, sum{}, partition::sizes({4, 4}));
    });
    expect_error(wrong_sum, 0, errc::bad_partition, {"reduce_scatter", "rank 0", "8", "10"});
    const auto wrong_count = outcomes_on_ranks(2, [](auto& comm) {
        std::vector<int> in(10), out(10);
        all_gather(comm, in, out, partition::sizes({4, 4, 2}));
    });
    expect_error(wrong_count, 1, errc::bad_partition, {"all_gather", "3 blocks", "2 ranks"});
    const auto wrong_block = outcomes_on_ranks(2, [](auto& comm) {
        std::vector<int> in(10), out(4);
        reduce_scatter(comm, in, out, sum{});
    });
    expect_error(wrong_block, 0, errc::mismatch, {"output", "4", "5"});
    const auto different = outcomes_on_ranks(2, [](auto& comm) {
        std::vector<int> in(10), out(comm.rank() == 0 ? 4 : 5);
        reduce_scatter(comm, in, out, sum{}, comm.rank() == 0 ? partition::sizes({4, 6}) : partition::sizes({5, 5}));
    });
    for (const auto& each : different) CHECK_FALSE(each.succeeded());
}

TEST_CASE("input and output that overlap in part are refused before anything is written") {
    std::vector<int> memory(20, 3);
    const auto outcomes = outcomes_on_ranks(
        1, [&](auto& comm) { all_reduce(comm, std::span(memory).first(10), std::span(memory).subspan(5, 10), sum{}); });
    expect_error(outcomes, 0, errc::overlap, {"all_reduce", "rank 0", "20 bytes"});
    CHECK(memory == std::vector<int>(20, 3));
    test::on_ranks(2, [](auto& comm) {  // the same memory is in place, and neighbours are apart
        std::vector<int> x(10, 1);
        all_reduce(comm, std::span(x), std::span(x), sum{});
        CHECK(x == std::vector<int>(10, 2));
        all_reduce(comm, std::span(x).first(5), std::span(x).last(5), sum{});
    });
}

TEST_CASE("elements at a null address are refused, no elements are not") {
    const auto outcomes =
        outcomes_on_ranks(2, [](auto& comm) { all_reduce(comm, tensor<float, 1>(nullptr, {5}), sum{}); });
    expect_error(outcomes, 0, errc::bad_argument, {"all_reduce", "5 elements", "null"});
    test::on_ranks(2, [](auto& comm) { all_reduce(comm, tensor<float, 1>(nullptr, {0}), sum{}); });
    SUCCEED("no elements at a null address went through");
}

TEST_CASE("no ranks, foreign ranks and a size that an algorithm does not know are refused") {
    CHECK_THROWS_AS(run(0, [](auto&) {}), error);
    CHECK_THROWS_AS(thread_world(-1), error);
    thread_world world(2);
    CHECK_THROWS_AS(world.communicator(2), error);
    CHECK_THROWS_AS(world.communicator(-1), error);
    const auto outcomes = outcomes_on_ranks(3, [](auto& comm) {
        float x = 1;
        all_reduce(comm, x, sum{}, neighbour_exchange{});
    });
    expect_error(outcomes, 2, errc::bad_argument, {"neighbour", "3 ranks"});
}

TEST_CASE("a communicator that has failed refuses every further collective") {
    thread_world world(1);
    thread_communicator comm = world.communicator(0);
    float x = 1;
    CHECK_THROWS_AS(broadcast(comm, x, root{3}), error);
    CHECK_THROWS_AS(barrier(comm), error);
}
