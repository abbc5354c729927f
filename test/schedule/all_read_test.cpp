// SPDX-License-Identifier: BSL-1.0
#include "allfold/schedule/all_read.hpp"

#include "test/schedule/steps.hpp"

using allfold::all_read;

static_assert(all_read::all_reduce::keeps == allfold::order::tree && all_read::reduce::keeps == allfold::order::tree);
static_assert(all_read::inclusive_scan::keeps == allfold::order::tree);
static_assert(all_read::exclusive_scan::keeps == allfold::order::tree);
static_assert(!allfold::slice_owner_schedule<all_read::all_reduce>);
static_assert(allfold::proved_up_to<all_read::barrier, 32>);
static_assert(allfold::proved_up_to<all_read::all_reduce, 32>);
static_assert(allfold::proved_up_to<all_read::reduce, 32>);
static_assert(allfold::proved_up_to<all_read::inclusive_scan, 32>);
static_assert(allfold::proved_up_to<all_read::exclusive_scan, 32>);

TEST_CASE("the steps of all-read at P = 3 are these") {
    CHECK(test::steps_of<all_read::barrier>(3) == test::table(3, {"->all <-all"}));
    CHECK(test::steps_of<all_read::all_reduce>(3) == test::table(3, {"input->all result=ordered([all],input)"}));
    CHECK(test::steps_of<all_read::reduce>(3, 1) ==
          test::table{{"input->1"}, {"result=ordered([all],input)"}, {"input->1"}});
    CHECK(test::steps_of<all_read::inclusive_scan>(3) == test::table{
                                                             {"result=input input->higher"},
                                                             {"input->higher result=ordered([lower],input)"},
                                                             {"input->higher result=ordered([lower],input)"},
                                                         });
    CHECK(test::steps_of<all_read::exclusive_scan>(3) == test::table{
                                                             {"input->higher"},
                                                             {"input->higher result=ordered([lower])"},
                                                             {"input->higher result=ordered([lower])"},
                                                         });
}

TEST_CASE("all-read is proved for many ranks and costs what it says") {
    const std::vector<int> sizes = test::sizes_up_to(test::many / 4);
    test::prove_for<all_read::barrier>(sizes, [](const allfold::proof& p, const auto&) {
        CHECK(p.rounds == std::min(p.size - 1, 1));
        CHECK(p.messages == p.size * (p.size - 1));
    });
    test::prove_for<all_read::all_reduce>(sizes, [](const allfold::proof& p, const auto&) {
        CHECK(p.rounds == std::min(p.size - 1, 1));
        CHECK(p.busiest_blocks_sent == p.size - 1);
        CHECK(p.busiest_folds == p.size - 1);
    });
    test::prove_for<all_read::reduce>(sizes, [](const allfold::proof& p, const auto&) {
        CHECK(p.messages == p.size - 1);
        CHECK(p.busiest_folds == p.size - 1);
    });
    test::prove_for<all_read::inclusive_scan>(sizes, [](const allfold::proof& p, const auto&) {
        CHECK(p.messages == p.size * (p.size - 1) / 2);
        CHECK(p.busiest_folds == p.size - 1);
    });
    test::prove_for<all_read::exclusive_scan>(sizes, [](const allfold::proof& p, const auto&) {
        CHECK(p.messages == p.size * (p.size - 1) / 2);
        CHECK(p.busiest_folds == std::max(p.size - 2, 0));
    });
}
