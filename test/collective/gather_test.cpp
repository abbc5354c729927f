// SPDX-License-Identifier: BSL-1.0
#include "allfold/collective/gather.hpp"

#include <cstddef>
#include <vector>

#include "allfold/collective/barrier.hpp"
#include "allfold/data/partition.hpp"
#include "test/collective/gather_checks.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"
#include "test/support/groups.hpp"
#include "test/support/ranks.hpp"

using namespace test;

TEMPLATE_TEST_CASE("gather gives the root the blocks of all ranks", "", words, matrices) {
    on_all_groups<TestType>(
        [](auto& comm, const auto& p, const auto& where) { check_gather_with_all_algorithms(comm, p, where); });
    SUCCEED();
}

TEST_CASE("gather works where ranks share no memory") {
    on_remote_groups<integers>([](auto& comm, const auto& p, const auto& where) {
        for (const auto& blocks : partitions_of(p.size(), comm.size()))
            check_gather(comm, p, comm.size() / 2, blocks, where, blocks);
    });
    SUCCEED();
}

TEST_CASE("gather takes equally many elements of each rank unless told otherwise") {
    for (const int size : group_sizes)
        on_ranks(size, [&](auto& comm) {
            const auto P = static_cast<std::size_t>(size);
            const std::vector<int> mine(3, comm.rank());
            std::vector<int> all(comm.rank() == 0 ? 3 * P : 0);
            allfold::gather(comm, mine, all);
            for (std::size_t i = 0; i < all.size(); ++i) expect(all[i] == static_cast<int>(i / 3), "wrong block");

            std::vector<double> values(comm.rank() == 0 ? P : 0);
            const double x = comm.rank();
            auto operation = allfold::gather.start(comm, x, values);
            operation.wait();
            auto again = allfold::gather.prepare(comm, x, values);
            again();
            for (std::size_t i = 0; i < values.size(); ++i) expect(values[i] == static_cast<double>(i), "wrong value");
        });
    SUCCEED();
}

TEST_CASE("sizes that do not fit are refused at the rank that has them, and release all others") {
    const auto blocks = allfold::partition::sizes({2, 3, 4});
    const auto outcomes = outcomes_on_ranks(3, [&](auto& comm) {
        const std::vector<int> mine(comm.rank() == 1 ? 2 : blocks.extent(comm.rank()));
        std::vector<int> all(9);
        allfold::gather(comm, mine, all, blocks);
    });
    CHECK(outcomes[1].code == allfold::errc::mismatch);
    CHECK(outcomes[1].says("gather: rank 1: the input has 2 elements, but 3 are needed"));

    const auto short_table = outcomes_on_ranks(3, [&](auto& comm) {
        const std::vector<int> mine(3);
        std::vector<int> all(9, 7);
        const auto table = comm.rank() == 0 ? allfold::partition::even(9, 2) : allfold::partition::even(9, 3);
        allfold::gather(comm, mine, all, table);
    });
    CHECK(short_table[0].code == allfold::errc::bad_partition);
    CHECK(short_table[0].says("the partition has 2 blocks for 3 ranks"));

    const auto no_third = outcomes_on_ranks(3, [](auto& comm) {
        const std::vector<int> mine(3);
        std::vector<int> all(10);
        allfold::gather(comm, mine, all);
    });
    CHECK(no_third[0].code == allfold::errc::bad_partition);
    CHECK(no_third[0].says("10 elements of the output cannot be made up of equal blocks from 3 ranks"));
}

TEST_CASE("ranks that give gather other partitions find out, with figures") {
    const auto outcomes = outcomes_on_ranks(2, [](auto& comm) {
        const auto blocks = comm.rank() == 0 ? allfold::partition::sizes({1, 3}) : allfold::partition::sizes({2, 2});
        const std::vector<int> mine(blocks.extent(comm.rank()));
        std::vector<int> all(4);
        allfold::gather(comm, mine, all, blocks);
        allfold::barrier(comm);
    });
    CHECK((outcomes[0].code == allfold::errc::mismatch || outcomes[1].code == allfold::errc::mismatch));
    CHECK((outcomes[0].says("blocks of up to 3") || outcomes[1].says("blocks of up to 3")));
}
