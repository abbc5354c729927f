// SPDX-License-Identifier: BSL-1.0
#include "allfold/collective/scatter.hpp"

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "allfold/collective/all_to_all.hpp"
#include "allfold/collective/barrier.hpp"
#include "allfold/data/partition.hpp"
#include "test/collective/scatter_checks.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"
#include "test/support/groups.hpp"
#include "test/support/ranks.hpp"
#include "test/support/require_codes.hpp"

using namespace test;

TEMPLATE_TEST_CASE("scatter gives every rank its block of the root's operand", "", words, matrices) {
    on_all_groups<TestType>(
        [](auto& comm, const auto& p, const auto& where) { check_scatter_with_all_algorithms(comm, p, where); });
    SUCCEED();
}

TEST_CASE("scatter works where ranks share no memory") {
    on_remote_groups<integers>([](auto& comm, const auto& p, const auto& where) {
        for (const auto& blocks : partitions_of(p.size(), comm.size()))
            check_scatter(comm, p, comm.size() / 2, blocks, where, blocks);
    });
    SUCCEED();
}

TEST_CASE("scatter ignores the input of ranks other than the root (pitfall 10)") {
    on_ranks(3, [](auto& comm) {
        const std::vector<int> whole{1, 2, 3};
        const std::span<const int> nowhere(static_cast<const int*>(nullptr), 7);
        int mine = 0;
        for (int turn = 0; turn < 3; ++turn)
            allfold::scatter(comm, comm.rank() == 1 ? std::span<const int>(whole) : nowhere, mine, allfold::root{1});
        expect(mine == comm.rank() + 1, "wrong element");
    });
    SUCCEED();
}

TEST_CASE("scatter gives every rank equally many elements unless told otherwise") {
    for (const int size : group_sizes)
        on_ranks(size, [&](auto& comm) {
            const auto P = static_cast<std::size_t>(size);
            std::vector<int> all(comm.rank() == 0 ? 3 * P : 0), mine(3, -1);
            for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i / 3);
            allfold::scatter(comm, all, mine);
            expect(mine == std::vector(3, comm.rank()), "wrong block");

            std::vector<double> values(comm.rank() == 0 ? P : 0);
            for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
            double x = -1;
            auto operation = allfold::scatter.start(comm, values, x);
            operation.wait();
            expect(x == comm.rank(), "wrong value, started");
            x = -1;
            auto again = allfold::scatter.prepare(comm, values, x);
            again();
            expect(x == comm.rank(), "wrong value, prepared");
        });
    SUCCEED();
}

TEST_CASE("blocks that are lent because those of all ranks together are long arrive, also in calls that are repeated") {
    for (const std::size_t n : {2000u, 21845u, 60000u})
        for (const int size : {3, 6, 7})
            on_ranks(size,
                     [&](auto& comm) {
                         using three_bytes = std::array<unsigned char, 3>;
                         const allfold::partition blocks = allfold::partition::even(n, size);
                         const std::size_t first = blocks.offset(comm.rank());
                         for (std::size_t turn = 0; turn < 4; ++turn) {
                             const auto value = [&](std::size_t i) {
                                 return three_bytes{static_cast<unsigned char>(i + turn)};
                             };
                             std::vector<three_bytes> in(comm.rank() == 1 ? n : 0), out(blocks.extent(comm.rank()));
                             for (std::size_t i = 0; i < in.size(); ++i) in[i] = value(i);
                             allfold::scatter(comm, in, out, blocks, allfold::root{1});
                             std::vector<three_bytes> mine(n), all(out.size() * static_cast<std::size_t>(size));
                             for (std::size_t i = 0; i < n; ++i) mine[i] = value(i);
                             allfold::all_to_all(comm, mine, all, allfold::input_blocks{blocks});
                             bool is_right = true;
                             for (std::size_t i = 0; i < out.size(); ++i) is_right &= out[i] == value(first + i);
                             for (std::size_t i = 0; i < all.size(); ++i)
                                 is_right &= all[i] == value(first + i % out.size());
                             expect(is_right, "block");
                         }
                     },
                     {.notice_readers = 2});
    SUCCEED();
}

TEST_CASE("sizes that do not fit a scatter are refused at the rank that has them, and release all others") {
    const auto blocks = allfold::partition::sizes({2, 3, 4});
    const auto outcomes = outcomes_on_ranks(3, [&](auto& comm) {
        const std::vector<int> all(9);
        std::vector<int> mine(comm.rank() == 1 ? 2 : blocks.extent(comm.rank()));
        allfold::scatter(comm, all, mine, blocks);
        allfold::barrier(comm);
    });
    CHECK(outcomes[1].code == allfold::errc::mismatch);
    CHECK(outcomes[1].says("scatter: rank 1: the output has 2 elements, but 3 are needed"));

    const auto short_input = outcomes_on_ranks(3, [&](auto& comm) {
        const std::vector<int> all(8);
        std::vector<int> mine(blocks.extent(comm.rank()));
        allfold::scatter(comm, all, mine, blocks);
        allfold::barrier(comm);
    });
    CHECK(short_input[0].code == allfold::errc::mismatch);
    CHECK(short_input[0].says("scatter: rank 0: the input has 8 elements, but 9 are needed"));

    const auto no_third = outcomes_on_ranks(3, [](auto& comm) {
        const std::vector<int> all(10);
        std::vector<int> mine(3, -1);
        try {
            allfold::scatter(comm, all, mine);
        } catch (const allfold::error&) {
            expect(mine == std::vector(3, -1), "written");
            throw;
        }
        allfold::barrier(comm);
    });
    require_codes(no_third);
    CHECK(no_third[0].code == allfold::errc::bad_partition);
    CHECK(no_third[0].says("10 elements of the input cannot be divided equally among 3 ranks"));

    const auto no_root = outcomes_on_ranks(2, [](auto& comm) {
        std::vector<int> x(2);
        allfold::scatter(comm, x, allfold::root{2});
    });
    CHECK(no_root[1].code == allfold::errc::bad_rank);
    CHECK(no_root[1].says("scatter: rank 1: root 2 is not in [0, 2)"));
}

TEST_CASE("ranks that give scatter other partitions or lengths find out, with figures, and nothing is written") {
    const auto scatter_and_meet = [](auto& comm, const std::vector<int>& all, std::vector<int>& mine,
                                     const auto&... options) {
        const std::vector<int> before = mine;
        try {
            allfold::scatter(comm, all, mine, options...);
            allfold::barrier(comm);
        } catch (const allfold::error&) {
            expect(comm.rank() == 0 || mine == before, "written");
            throw;
        }
    };
    const auto partitions = outcomes_on_ranks(2, [&](auto& comm) {
        const auto blocks = comm.rank() == 0 ? allfold::partition::sizes({1, 3}) : allfold::partition::sizes({2, 2});
        std::vector<int> mine(blocks.extent(comm.rank()), -1);
        scatter_and_meet(comm, std::vector<int>(4), mine, blocks);
    });
    require_codes(partitions);
    CHECK((partitions[0].code == allfold::errc::mismatch || partitions[1].code == allfold::errc::mismatch));
    CHECK((partitions[0].says("blocks of up to 3") || partitions[1].says("blocks of up to 3")));

    const auto lengths = outcomes_on_ranks(2, [&](auto& comm) {
        std::vector<int> mine(comm.rank() == 0 ? 2 : 3, -1);
        scatter_and_meet(comm, std::vector<int>(4), mine);
    });
    require_codes(lengths);
    CHECK(lengths[1].code == allfold::errc::mismatch);
    CHECK((lengths[0].says("has 4") || lengths[1].says("has 4")));
    CHECK((lengths[0].says("has 6") || lengths[1].says("has 6")));
}

TEST_CASE("different roots of a scatter are a mismatch") {
    const auto outcomes = outcomes_on_ranks(3, [](auto& comm) {
        const std::vector<int> all(3);
        std::vector<int> mine(1, -1);
        allfold::scatter(comm, all, mine, allfold::root{comm.rank() == 2 ? 1 : 0});
        allfold::barrier(comm);
    });
    bool told = false;
    for (const auto& each : outcomes)
        told |= each.code == allfold::errc::mismatch && each.says("names root 1") && each.says("names root 0");
    CHECK(told);
}
