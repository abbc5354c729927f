// SPDX-License-Identifier: BSL-1.0
#include "allfold/schedule/near_first.hpp"

#include <algorithm>
#include <bit>

#include "allfold/schedule/recursive_halving.hpp"
#include "test/schedule/proofs.hpp"
#include "test/schedule/steps.hpp"

using allfold::near_first;
using allfold::detail::ceil_log2;

static_assert(near_first::reduce_scatter::keeps == allfold::order::rank);
static_assert(near_first::reduce_scatter::in_place);
static_assert(test::proved_up_to<allfold::reduce_scatter, near_first{}, 32>);

TEST_CASE("the steps of near first at P = 3 are these") {
    CHECK(test::steps_of(allfold::reduce_scatter, near_first{}, 3) ==
          test::table{
              {"a{0,2}=input input{1}->1 b{0}<-2", "a{2}->2 b{0}=[1]+b", "result{0}=a+b"},
              {"a{0}=input input{2}->2 a{1}=[0]+input", "a{0}->0 b{1}<-2", "result{1}=a+b"},
              {"a{1}=input input{0}->0 a{2}=[1]+input", "a{1}->1 a{2}=[0]+a", "result{2}=a"},
          });
}

TEST_CASE("near first is proved for many ranks and costs what it says") {
    test::prove_for(allfold::reduce_scatter, near_first{}, test::sizes_up_to(test::many / 4),
                    [](const allfold::proof& p, const auto&) {
                        const int q = ceil_log2(p.size);
                        CHECK(p.rounds == (p.size > 1 ? q + 1 : 0));
                        CHECK(p.messages == p.size * q);
                        CHECK(2 * p.busiest_blocks_sent <= 3 * (p.size - 1));
                        CHECK(p.busiest_folds <= p.size);
                    });
}

TEST_CASE("but for powers of two near first has a round with messages less than recursive halving, and fewer folds") {
    for (int size = 3; size <= 40; ++size) {
        if (std::has_single_bit(static_cast<unsigned>(size))) continue;
        const auto near = allfold::prove(allfold::reduce_scatter, near_first{}, size);
        const auto halving = allfold::prove(allfold::reduce_scatter, allfold::recursive_halving{}, size);
        INFO("P = " << size);
        CHECK(near.rounds == halving.rounds);  // but the last round of near first has no messages
        CHECK(near.busiest_folds < halving.busiest_folds);
    }
}
