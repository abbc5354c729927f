// SPDX-License-Identifier: BSL-1.0
#include "allfold/schedule/circulant.hpp"

#include "test/schedule/proofs.hpp"
#include "test/schedule/steps.hpp"

using allfold::circulant;
using allfold::detail::ceil_log2;

static_assert(circulant::reduce_scatter::keeps == allfold::order::any);
static_assert(circulant::all_reduce::scratch_slots == 0 && circulant::all_reduce::in_place);
static_assert(test::proved_up_to<allfold::reduce_scatter, circulant{}, 32>);
static_assert(test::proved_up_to<allfold::all_gather, circulant{}, 32>);
static_assert(test::proved_up_to<allfold::all_reduce, circulant{}, 32>);

TEST_CASE("the steps on a circulant graph at P = 5 are these") {
    CHECK(test::steps_of(allfold::reduce_scatter, circulant{}, 5) ==
          test::table{
              {"a{2}=input input{3,4}->3 a{0,1}=[2]+input", "a{2}->2 a{0}=[3]+a", "a{1}->1 result{0}=[4]+a"},
              {"a{3}=input input{4,0}->4 a{1,2}=[3]+input", "a{3}->3 a{1}=[4]+a", "a{2}->2 result{1}=[0]+a"},
              {"a{4}=input input{0,1}->0 a{2,3}=[4]+input", "a{4}->4 a{2}=[0]+a", "a{3}->3 result{2}=[1]+a"},
              {"a{0}=input input{1,2}->1 a{3,4}=[0]+input", "a{0}->0 a{3}=[1]+a", "a{4}->4 result{3}=[2]+a"},
              {"a{1}=input input{2,3}->2 a{4,0}=[1]+input", "a{1}->1 a{4}=[2]+a", "a{0}->0 result{4}=[3]+a"},
          });
    CHECK(
        test::steps_of(allfold::all_gather, circulant{}, 5) ==
        test::table{
            {"result{0}=input result{0}->4 result{1}<-1", "result{0}->3 result{2}<-2", "result{0,1}->2 result{3,4}<-3"},
            {"result{1}=input result{1}->0 result{2}<-2", "result{1}->4 result{3}<-3", "result{1,2}->3 result{4,0}<-4"},
            {"result{2}=input result{2}->1 result{3}<-3", "result{2}->0 result{4}<-4", "result{2,3}->4 result{0,1}<-0"},
            {"result{3}=input result{3}->2 result{4}<-4", "result{3}->1 result{0}<-0", "result{3,4}->0 result{1,2}<-1"},
            {"result{4}=input result{4}->3 result{0}<-0", "result{4}->2 result{1}<-1", "result{4,0}->1 result{2,3}<-2"},
        });
}

TEST_CASE("an all_reduce on a circulant graph folds in the result, without scratch") {
    CHECK(test::steps_of(allfold::all_reduce, circulant{}, 3)[0] ==
          std::vector<std::string>{"result{1}=input input{2}->2 result{0}=[1]+input",
                                   "result{1}->1 result{0}=[2]+result", "result{0}->2 result{1}<-1",
                                   "result{0}->1 result{2}<-2"});
}

TEST_CASE("pitfall 25: a circulant graph is proved up to P = 512, all_gather up to 4096, and costs what it says") {
    test::prove_for(allfold::reduce_scatter, circulant{}, test::sizes_up_to(512),
                    [](const allfold::proof& p, const auto&) {
                        CHECK(p.rounds == ceil_log2(p.size));
                        CHECK(p.busiest_blocks_sent == p.size - 1);
                        CHECK(p.busiest_folds == p.size - 1);
                    });
    test::prove_for(allfold::all_gather, circulant{}, test::sizes_up_to(test::many),
                    [](const allfold::proof& p, const auto&) {
                        CHECK(p.rounds == ceil_log2(p.size));
                        CHECK(p.busiest_blocks_sent == p.size - 1);
                        CHECK(p.folds == 0);
                    });
    test::prove_for(allfold::all_reduce, circulant{}, test::sizes_up_to(512), [](const allfold::proof& p, const auto&) {
        CHECK(p.rounds == 2 * ceil_log2(p.size));
        CHECK(p.busiest_blocks_sent == 2 * (p.size - 1));
        CHECK(p.busiest_folds == p.size - 1);
        CHECK(p.scratch_slots == 0);
    });
}
