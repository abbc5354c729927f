// SPDX-License-Identifier: BSL-1.0
#include "allfold/collective/reduce_scatter.hpp"

#include <cstddef>
#include <string>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective/all_gather.hpp"
#include "allfold/data/partition.hpp"
#include "test/collective/reduce_scatter_checks.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"
#include "test/support/groups.hpp"
#include "test/support/hierarchies.hpp"
#include "test/support/problems.hpp"

using namespace test;

TEMPLATE_LIST_TEST_CASE("reduce_scatter gives every rank its block of the fold in rank order", "", folded_algebras) {
    on_all_groups<TestType>(
        [](auto& comm, const auto& p, const auto& where) { check_reduce_scatter_with_all_algorithms(comm, p, where); });
    SUCCEED();
}

TEMPLATE_LIST_TEST_CASE("reduce_scatter cuts evenly unless told otherwise, and takes any operator", "",
                        number_algebras) {
    on_all_groups<TestType>([](auto& comm, const auto& p, const auto& where) {
        check_reduce_scatter(comm, p, allfold::partition::even(p.size(), comm.size()), where);
    });
    SUCCEED();
}

TEMPLATE_TEST_CASE("reduce_scatter keeps rank order where ranks share no memory", "", matrices, floats) {
    on_remote_groups<TestType>([](auto& comm, const auto& p, const auto& where) {
        for (const auto& blocks : partitions_of(p.size(), comm.size()))
            check_reduce_scatter(comm, p, blocks, where, blocks);
    });
    SUCCEED();
}

TEST_CASE("reduce_scatter keeps rank order on threads of processes") {
    on_hierarchies_of_few([](auto& comm, const std::string& where) {
        for (const auto& p : problems_for<matrices>(comm.size())) {
            const std::string here = where + ", n = " + std::to_string(p.size());
            check_reduce_scatter_with_all_algorithms(comm, p, here);
        }
    });
    SUCCEED();
}

TEST_CASE("shards that are padded to one length hold their blocks in front, and what lies behind is untouched") {
    for (const int size : {1, 2, 3, 5, 8})
        on_ranks(size, [](auto& comm) {
            for (const std::size_t n : {std::size_t{1}, std::size_t{10}, std::size_t{1001}}) {
                const auto blocks = allfold::partition::ceil(n, comm.size());
                std::vector<int> gradients(n), all(n), shard(blocks.largest(), -7);
                for (std::size_t i = 0; i < n; ++i) gradients[i] = static_cast<int>(i) + comm.rank();
                const auto own = blocks.unpadded(shard, comm.rank());
                allfold::reduce_scatter(comm, gradients, own, allfold::sum(), blocks);
                allfold::all_gather(comm, own, all, blocks);
                const int ranks = comm.size() * (comm.size() - 1) / 2;
                for (std::size_t i = 0; i < n; ++i)
                    expect(all[i] == comm.size() * static_cast<int>(i) + ranks, "a sum");
                for (std::size_t i = own.size(); i < shard.size(); ++i) expect(shard[i] == -7, "padding");
            }
        });
    std::vector<int> shard(2);
    const auto blocks = allfold::partition::ceil(10, 4);
    CHECK(blocks.unpadded(shard, 3).size() == 1);
    CHECK_THROWS_WITH(blocks.unpadded(shard, 0),
                      Catch::Contains("block 0 has 3 elements, but its shard has room for 2"));
}
