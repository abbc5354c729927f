// SPDX-License-Identifier: BSL-1.0
#include "allfold/schedule/one_two_three_doubling.hpp"

#include <cmath>

#include "allfold/schedule/dissemination.hpp"
#include "test/schedule/proofs.hpp"
#include "test/schedule/steps.hpp"

using allfold::one_two_three_doubling;

static_assert(one_two_three_doubling::exclusive_scan::keeps == allfold::order::rank);
static_assert(test::proved_up_to<allfold::exclusive_scan, one_two_three_doubling{}, 32>);

TEST_CASE("123-doubling has one round more at P = 8, and sends the own operand along in two of them") {
    CHECK(test::steps_of(allfold::exclusive_scan, one_two_three_doubling{}, 8) ==
          test::table{
              {"input->1", "input->2", "-", "result=identity"},
              {"input->2 result<-0", "b=result+input b->3", "result->4", "result->7"},
              {"input->3 a<-1", "b=a+input b->4 result=[0]+a", "result->5", "-"},
              {"input->4 a<-2", "b=a+input b->5 result=[1]+a", "result->6", "-"},
              {"input->5 result<-3", "b=result+input b->6 a=[2]+result", "a->7 result=[1]+a", "-"},
              {"input->6 result<-4", "b=result+input b->7 a=[3]+result", "result=[2]+a", "-"},
              {"input->7 result<-5", "a=[4]+result", "result=[3]+a", "-"},
              {"a<-6", "result=[5]+a", "a=[4]+result", "result=[1]+a"},
          });
}

TEST_CASE("123-doubling is proved up to P = 4096 and costs what it says") {
    test::prove_for(allfold::exclusive_scan, one_two_three_doubling{}, test::sizes_up_to(4096),
                    [](const allfold::proof& p, const auto&) {
                        const double needed = std::log2(p.size - 1) + std::log2(4.0 / 3);
                        CHECK(p.rounds == (p.size == 1 ? 0 : static_cast<int>(std::ceil(needed - 1e-9))));
                        CHECK(p.busiest_blocks_sent <= p.rounds);
                        CHECK(p.busiest_folds <= p.rounds);
                    });
}

TEST_CASE("up to P = 13 dissemination has neither more rounds nor more folds, so that nobody need choose") {
    for (int size = 1; size <= 14; ++size) {
        const auto few_folds = allfold::prove(allfold::exclusive_scan, one_two_three_doubling{}, size);
        const auto few_rounds = allfold::prove(allfold::exclusive_scan, allfold::dissemination{}, size);
        INFO("P = " << size);
        CHECK(few_rounds.rounds <= few_folds.rounds);
        CHECK((few_rounds.busiest_folds <= few_folds.busiest_folds) == (size <= 13));
    }
}

TEST_CASE("among many ranks 123-doubling folds less than dissemination, in one round more") {
    const auto few_folds = allfold::prove(allfold::exclusive_scan, one_two_three_doubling{}, 256);
    const auto few_rounds = allfold::prove(allfold::exclusive_scan, allfold::dissemination{}, 256);
    CHECK(few_folds.rounds == 9);
    CHECK(few_folds.busiest_folds == 9);
    CHECK(few_rounds.rounds == 8);
    CHECK(few_rounds.busiest_folds == 13);
}
