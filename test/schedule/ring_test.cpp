// SPDX-License-Identifier: BSL-1.0
#include "allfold/schedule/ring.hpp"

#include "test/schedule/proofs.hpp"
#include "test/schedule/steps.hpp"

using allfold::ring;

static_assert(ring::reduce_scatter::keeps == allfold::order::any);
static_assert(test::proved_up_to<allfold::reduce_scatter, ring{}, 32>);
static_assert(test::proved_up_to<allfold::all_gather, ring{}, 32>);

TEST_CASE("the steps of a ring at P = 3 are these") {
    CHECK(test::steps_of(allfold::reduce_scatter, ring{}, 3) ==
          test::table{
              {"input{2}->1 a{1}=[2]+input", "a{1}->1 result{0}=[2]+input"},
              {"input{0}->2 a{2}=[0]+input", "a{2}->2 result{1}=[0]+input"},
              {"input{1}->0 a{0}=[1]+input", "a{0}->0 result{2}=[1]+input"},
          });
    CHECK(test::steps_of(allfold::all_gather, ring{}, 3) ==
          test::table{
              {"result{0}=input result{0}->1 result{2}<-2", "result{2}->1 result{1}<-2"},
              {"result{1}=input result{1}->2 result{0}<-0", "result{0}->2 result{2}<-0"},
              {"result{2}=input result{2}->0 result{1}<-1", "result{1}->0 result{0}<-1"},
          });
}

TEST_CASE("a ring is proved up to P = 512 and costs what it says") {
    test::prove_for(allfold::reduce_scatter, ring{}, test::sizes_up_to(512), [](const allfold::proof& p, const auto&) {
        CHECK(p.rounds == p.size - 1);
        CHECK(p.busiest_blocks_sent == p.size - 1);
        CHECK(p.busiest_folds == p.size - 1);
    });
    test::prove_for(allfold::all_gather, ring{}, test::sizes_up_to(512), [](const allfold::proof& p, const auto&) {
        CHECK(p.rounds == p.size - 1);
        CHECK(p.busiest_blocks_sent == p.size - 1);
        CHECK(p.folds == 0);
    });
}
