// SPDX-License-Identifier: BSL-1.0
#include "allfold/schedule/direct.hpp"
#include "test/schedule/proofs.hpp"
#include "test/schedule/steps.hpp"

/// @file
/// Separate from direct_test.cpp because the compile-time proofs need a lot of memory.

using allfold::direct;

static_assert(direct::reduce::keeps == allfold::order::tree);
static_assert(test::proved_up_to<allfold::reduce, direct{}, 32>);

TEST_CASE("the steps of a direct reduce to rank 1 of 3 are these") {
    CHECK(test::steps_of(allfold::reduce, direct{}, 3, 1) ==
          test::table{
              {"input{p}->all a{0}=ordered([all],input)", "a{0}->1"},
              {"input{p}->all result{1}=ordered([all],input)", "result{p}<-all"},
              {"input{p}->all a{2}=ordered([all],input)", "a{2}->1"},
          });
}

TEST_CASE("a direct reduce is proved for many ranks and costs what it says") {
    test::prove_for(allfold::reduce, direct{}, test::sizes_up_to(test::many / 4),
                    [](const allfold::proof& p, const auto&) {
                        CHECK(p.rounds == 2 * std::min(p.size - 1, 1));
                        CHECK(p.busiest_blocks_sent == (p.size > 1 ? p.size : 0));
                        CHECK(p.busiest_folds == p.size - 1);
                    });
}
