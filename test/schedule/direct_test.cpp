// SPDX-License-Identifier: BSL-1.0
#include "allfold/schedule/direct.hpp"

#include "test/schedule/steps.hpp"

using allfold::direct;

static_assert(allfold::slice_owner_schedule<direct::all_reduce>);
static_assert(direct::all_reduce::keeps == allfold::order::tree);
static_assert(allfold::proved_up_to<direct::all_reduce, 32>);
static_assert(allfold::proved_up_to<direct::reduce_scatter, 32>);
static_assert(allfold::proved_up_to<direct::all_gather, 32>);
static_assert(allfold::proved_up_to<direct::broadcast, 32>);

TEST_CASE("the steps of direct at P = 3 are these") {
    CHECK(test::steps_of<direct::all_reduce>(3) ==
          test::table{
              {"input{p}->all result{0}=ordered([all],input)", "result{0}->all result{p}<-all"},
              {"input{p}->all result{1}=ordered([all],input)", "result{1}->all result{p}<-all"},
              {"input{p}->all result{2}=ordered([all],input)", "result{2}->all result{p}<-all"},
          });
    CHECK(test::steps_of<direct::reduce_scatter>(3)[2][0] == "input{p}->all result{2}=ordered([all],input)");
    CHECK(test::steps_of<direct::all_gather>(3)[2][0] == "result{2}=input input{2}->all result{p}<-all");
    CHECK(test::steps_of<direct::broadcast>(3, 1) ==
          test::table{{"result<-1"}, {"result=input input->all"}, {"result<-1"}});
}

TEST_CASE("direct is proved for many ranks and costs what it says") {
    const std::vector<int> sizes = test::sizes_up_to(test::many / 4);
    test::prove_for<direct::all_reduce>(sizes, [](const allfold::proof& p, const auto&) {
        CHECK(p.rounds == 2 * std::min(p.size - 1, 1));
        CHECK(p.busiest_blocks_sent == 2 * (p.size - 1));
        CHECK(p.busiest_folds == p.size - 1);
        CHECK(p.scratch_slots == 0);
    });
    test::prove_for<direct::reduce_scatter>(sizes, [](const allfold::proof& p, const auto&) {
        CHECK(p.busiest_blocks_sent == p.size - 1);
        CHECK(p.busiest_folds == p.size - 1);
    });
    test::prove_for<direct::all_gather>(sizes, [](const allfold::proof& p, const auto&) {
        CHECK(p.busiest_blocks_sent == p.size - 1);
        CHECK(p.folds == 0);
    });
    test::prove_for<direct::broadcast>(sizes, [](const allfold::proof& p, const auto&) {
        CHECK(p.messages == p.size - 1);
        CHECK(p.rounds == std::min(p.size - 1, 1));
    });
}
