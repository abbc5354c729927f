// SPDX-License-Identifier: BSL-1.0
#include "allfold/schedule/all_read.hpp"

#include "test/schedule/proofs.hpp"
#include "test/schedule/steps.hpp"

using allfold::all_read;

static_assert(all_read::all_reduce::keeps == allfold::order::tree && all_read::reduce::keeps == allfold::order::tree);
static_assert(all_read::inclusive_scan::keeps == allfold::order::tree);
static_assert(all_read::exclusive_scan::keeps == allfold::order::tree);
static_assert(test::proved_up_to<allfold::barrier, all_read{}, 32>);
static_assert(test::proved_up_to<allfold::all_reduce, all_read{}, 32>);
static_assert(test::proved_up_to<allfold::reduce, all_read{}, 32>);
static_assert(test::proved_up_to<allfold::inclusive_scan, all_read{}, 32>);
static_assert(test::proved_up_to<allfold::exclusive_scan, all_read{}, 32>);

TEST_CASE("the steps of all-read at P = 3 are these") {
    CHECK(test::steps_of(allfold::barrier, all_read{}, 3) == test::table(3, {"->all <-all"}));
    CHECK(test::steps_of(allfold::all_reduce, all_read{}, 3) ==
          test::table(3, {"input->all result=ordered([all],input)"}));
    CHECK(test::steps_of(allfold::reduce, all_read{}, 3, 1) ==
          test::table{{"input->1"}, {"result=ordered([all],input)"}, {"input->1"}});
    CHECK(test::steps_of(allfold::inclusive_scan, all_read{}, 3) == test::table{
                                                                        {"result=input input->higher"},
                                                                        {"input->higher result=ordered([lower],input)"},
                                                                        {"input->higher result=ordered([lower],input)"},
                                                                    });
    CHECK(test::steps_of(allfold::exclusive_scan, all_read{}, 3) == test::table{
                                                                        {"result=identity input->higher"},
                                                                        {"input->higher result=ordered([lower])"},
                                                                        {"input->higher result=ordered([lower])"},
                                                                    });
}

TEST_CASE("all-read is proved for many ranks and costs what it says") {
    const std::vector<int> sizes = test::sizes_up_to(test::many / 4);
    test::prove_for(allfold::barrier, all_read{}, sizes, [](const allfold::proof& p, const auto&) {
        CHECK(p.rounds == std::min(p.size - 1, 1));
        CHECK(p.messages == p.size * (p.size - 1));
    });
    test::prove_for(allfold::all_reduce, all_read{}, sizes, [](const allfold::proof& p, const auto&) {
        CHECK(p.rounds == std::min(p.size - 1, 1));
        CHECK(p.busiest_blocks_sent == p.size - 1);
        CHECK(p.busiest_folds == p.size - 1);
    });
    test::prove_for(allfold::reduce, all_read{}, sizes, [](const allfold::proof& p, const auto&) {
        CHECK(p.messages == p.size - 1);
        CHECK(p.busiest_folds == p.size - 1);
    });
    test::prove_for(allfold::inclusive_scan, all_read{}, sizes, [](const allfold::proof& p, const auto&) {
        CHECK(p.messages == p.size * (p.size - 1) / 2);
        CHECK(p.busiest_folds == p.size - 1);
    });
    test::prove_for(allfold::exclusive_scan, all_read{}, sizes, [](const allfold::proof& p, const auto&) {
        CHECK(p.messages == p.size * (p.size - 1) / 2);
        CHECK(p.busiest_folds == std::max(p.size - 2, 0));
    });
}
