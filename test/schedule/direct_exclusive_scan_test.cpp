// SPDX-License-Identifier: BSL-1.0
#include "allfold/schedule/direct.hpp"
#include "test/schedule/proofs.hpp"
#include "test/schedule/steps.hpp"

/// @file
/// Separate from direct_scan_test.cpp because the compile-time proofs need a lot of memory.

using allfold::direct;

static_assert(direct::exclusive_scan::keeps == allfold::order::rank);
static_assert(test::proved_up_to<allfold::exclusive_scan, direct{}, 32>);

TEST_CASE("the steps of a direct exclusive_scan at P = 3 are these") {
    CHECK(test::steps_of(allfold::exclusive_scan, direct{}, 3) ==
          test::table{
              {"input{p}->all a=prefixes{0}([all],input)", "result{0,1,2}=identity a{p}->1,2"},
              {"input{p}->all a=prefixes{1}([all],input)", "result{1}=a{0} a{p}->2 result{p}<-all"},
              {"input{p}->all a=prefixes{2}([all],input)", "result{2}=a{1} a{p}->1 result{p}<-all"},
          });
    constexpr direct::exclusive_scan second({1, 3});
    STATIC_REQUIRE(second.sent_to(0, 2) == allfold::block_set::one(2));  // of the input
    STATIC_REQUIRE(second.sent_to(1, 2) == allfold::block_set::one(1));  // of the prefixes
}

TEST_CASE("a direct exclusive_scan is proved for many ranks and costs what it says") {
    test::prove_for(allfold::exclusive_scan, direct{}, test::sizes_up_to(test::many / 4),
                    [](const allfold::proof& p, const auto&) {
                        CHECK(p.rounds == 2 * std::min(p.size - 1, 1));
                        CHECK(p.busiest_blocks_sent == 2 * (p.size - 1));
                        CHECK(p.busiest_folds == p.size - 1);
                        CHECK(p.scratch_slots == (p.size > 1 ? 1 : 0));
                    });
}
