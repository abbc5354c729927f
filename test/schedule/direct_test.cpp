// SPDX-License-Identifier: BSL-1.0
#include "allfold/schedule/direct.hpp"

#include "test/schedule/proofs.hpp"
#include "test/schedule/steps.hpp"

using allfold::direct;

static_assert(direct::all_reduce::keeps == allfold::order::tree);
static_assert(test::proved_up_to<allfold::all_reduce, direct{}, 32>);
static_assert(test::proved_up_to<allfold::reduce_scatter, direct{}, 32>);
static_assert(test::proved_up_to<allfold::all_gather, direct{}, 32>);
static_assert(test::proved_up_to<allfold::broadcast, direct{}, 32>);
static_assert(test::proved_up_to<allfold::all_to_all, direct{}, 32>);

TEST_CASE("the steps of direct at P = 3 are these") {
    CHECK(test::steps_of(allfold::all_reduce, direct{}, 3) ==
          test::table{
              {"input{p}->all result{0}=ordered([all],input)", "result{0}->all result{p}<-all"},
              {"input{p}->all result{1}=ordered([all],input)", "result{1}->all result{p}<-all"},
              {"input{p}->all result{2}=ordered([all],input)", "result{2}->all result{p}<-all"},
          });
    CHECK(test::steps_of(allfold::reduce_scatter, direct{}, 3)[2][0] == "input{p}->all result{2}=ordered([all],input)");
    CHECK(test::steps_of(allfold::all_gather, direct{}, 3)[2][0] == "result{2}=input input{2}->all result{p}<-all");
    CHECK(test::steps_of(allfold::broadcast, direct{}, 3, 1) ==
          test::table{{"result<-1"}, {"result=input input->all"}, {"result<-1"}});
}

TEST_CASE("direct is proved for many ranks and costs what it says") {
    const std::vector<int> sizes = test::sizes_up_to(test::many / 4);
    test::prove_for(allfold::all_reduce, direct{}, sizes, [](const allfold::proof& p, const auto&) {
        CHECK(p.rounds == 2 * std::min(p.size - 1, 1));
        CHECK(p.busiest_blocks_sent == 2 * (p.size - 1));
        CHECK(p.busiest_folds == p.size - 1);
        CHECK(p.scratch_slots == 0);
    });
    test::prove_for(allfold::reduce_scatter, direct{}, sizes, [](const allfold::proof& p, const auto&) {
        CHECK(p.busiest_blocks_sent == p.size - 1);
        CHECK(p.busiest_folds == p.size - 1);
    });
    test::prove_for(allfold::all_gather, direct{}, sizes, [](const allfold::proof& p, const auto&) {
        CHECK(p.busiest_blocks_sent == p.size - 1);
        CHECK(p.folds == 0);
    });
    test::prove_for(allfold::broadcast, direct{}, sizes, [](const allfold::proof& p, const auto&) {
        CHECK(p.messages == p.size - 1);
        CHECK(p.rounds == std::min(p.size - 1, 1));
    });
}
