// SPDX-License-Identifier: BSL-1.0
#include "allfold/schedule/dissemination.hpp"

#include <cmath>

#include "test/schedule/proofs.hpp"
#include "test/schedule/steps.hpp"

using allfold::dissemination;
using allfold::detail::ceil_log2;

static_assert(dissemination::inclusive_scan::keeps == allfold::order::rank);
static_assert(dissemination::exclusive_scan::keeps == allfold::order::rank);
static_assert(test::proved_up_to<allfold::barrier, dissemination{}, 32>);
static_assert(test::proved_up_to<allfold::inclusive_scan, dissemination{}, 32>);
static_assert(test::proved_up_to<allfold::exclusive_scan, dissemination{}, 32>);

TEST_CASE("the steps of a dissemination barrier at P = 3 are these") {
    CHECK(test::steps_of(allfold::barrier, dissemination{}, 3) == test::table{{"->1 <-2", "->2 <-1"},  //
                                                                              {"->2 <-0", "->0 <-2"},
                                                                              {"->0 <-1", "->1 <-0"}});
}

TEST_CASE("the steps of an inclusive scan at P = 4 are these") {
    CHECK(test::steps_of(allfold::inclusive_scan, dissemination{}, 4) ==
          test::table{
              {"result=input result->1", "result->2"},
              {"a=input a->2 result=[0]+input", "result->3"},
              {"input->3 a=[1]+input", "result=[0]+a"},
              {"a=[2]+input", "result=[1]+a"},
          });
}

TEST_CASE("the last rank of an inclusive scan sends nothing, and rank 1 of two copies nothing") {
    CHECK(test::steps_of(allfold::inclusive_scan, dissemination{}, 2) ==
          test::table{{"result=input result->1"}, {"result=[0]+input"}});
}

TEST_CASE("the steps of an exclusive scan at P = 6 are these") {
    CHECK(test::steps_of(allfold::exclusive_scan, dissemination{}, 6) ==
          test::table{
              {"input->1", "input->2", "result=identity"},
              {"input->2 result<-0", "b=result+input b->3", "result->4"},
              {"input->3 a<-1", "b=a+input b->4 result=[0]+a", "result->5"},
              {"input->4 a<-2", "b=a+input b->5 result=[1]+a", "-"},
              {"input->5 result<-3", "a=[2]+result", "result=[1]+a"},
              {"result<-4", "a=[3]+result", "result=[2]+a"},
          });
}

TEST_CASE("an exclusive scan sends own operands along in as few rounds as the paper says") {
    for (int size = 2; size <= 5000; ++size) {
        const int q = ceil_log2(size);
        const auto least = static_cast<int>(std::ceil(q - std::log2((1 << q) - size + 1)));
        INFO("P = " << size);
        REQUIRE(allfold::detail::windows_in_fewest_rounds(size).with_mine == std::max(least, 1));
    }
}

TEST_CASE("dissemination is proved up to P = 4096 and costs what it says") {
    test::prove_for(allfold::barrier, dissemination{}, test::sizes_up_to(4096),
                    [](const allfold::proof& p, const auto&) {
                        CHECK(p.rounds == ceil_log2(p.size));
                        CHECK(p.messages == static_cast<long long>(p.rounds) * p.size);
                        CHECK(p.blocks_sent == 0);
                    });
    test::prove_for(allfold::inclusive_scan, dissemination{}, test::sizes_up_to(4096),
                    [](const allfold::proof& p, const auto&) {
                        CHECK(p.rounds == ceil_log2(p.size));
                        CHECK(p.busiest_blocks_sent == p.rounds);
                        CHECK(p.busiest_folds == p.rounds);
                    });
    test::prove_for(allfold::exclusive_scan, dissemination{}, test::sizes_up_to(4096),
                    [](const allfold::proof& p, const auto&) {
                        const int with_mine = allfold::detail::windows_in_fewest_rounds(p.size).with_mine;
                        CHECK(p.rounds == ceil_log2(p.size));
                        CHECK(p.busiest_blocks_sent <= p.rounds);
                        CHECK(p.busiest_folds <= std::max(p.rounds + with_mine - 2, 0));
                    });
}
