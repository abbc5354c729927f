// SPDX-License-Identifier: BSL-1.0
#include "allfold/schedule/linear.hpp"

#include <algorithm>

#include "test/schedule/proofs.hpp"
#include "test/schedule/steps.hpp"

using allfold::linear;

static_assert(test::proved_up_to<allfold::gather, linear{}, 32>);
static_assert(test::proved_up_to<allfold::scatter, linear{}, 32>);

TEST_CASE("the steps of a linear gather and scatter of 3 ranks, root 1, are these") {
    CHECK(test::steps_of(allfold::gather, linear{}, 3, 1) ==
          test::table{{"input{0}->1"}, {"result{1}=input result{p}<-all"}, {"input{2}->1"}});
    CHECK(test::steps_of(allfold::scatter, linear{}, 3, 1) ==
          test::table{{"result{0}<-1"}, {"result{1}=input input{p}->all"}, {"result{2}<-1"}});
}

TEST_CASE("a linear gather is proved for many ranks and costs what it says") {
    test::prove_for(allfold::gather, linear{}, test::sizes_up_to(test::many / 4),
                    [](const allfold::proof& p, const auto&) {
                        CHECK(p.rounds == std::min(p.size - 1, 1));
                        CHECK(p.messages == p.size - 1);
                    });
}

TEST_CASE("a linear scatter is proved for many ranks and costs what it says") {
    test::prove_for(allfold::scatter, linear{}, test::sizes_up_to(test::many / 4),
                    [](const allfold::proof& p, const auto&) {
                        CHECK(p.rounds == std::min(p.size - 1, 1));
                        CHECK(p.messages == p.size - 1);
                        CHECK(p.busiest_blocks_sent == p.size - 1);
                        CHECK(p.scratch_slots == 0);
                    });
}
