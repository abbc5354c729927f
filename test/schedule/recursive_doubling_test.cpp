// SPDX-License-Identifier: BSL-1.0
#include "allfold/schedule/recursive_doubling.hpp"

#include "test/schedule/proofs.hpp"
#include "test/schedule/steps.hpp"

using allfold::recursive_doubling;
using all_reduce = recursive_doubling::all_reduce;

static_assert(allfold::schedule<all_reduce>);
static_assert(all_reduce::keeps == allfold::order::tree);
static_assert(test::proved_up_to<allfold::all_reduce, recursive_doubling{}, 32>);

TEST_CASE("the steps of recursive doubling at P = 6 are these") {
    CHECK(test::steps_of(allfold::all_reduce, recursive_doubling{}, 6) ==
          test::table{
              {"input->1", "-", "-", "result<-1"},
              {"a=[0]+input", "a->3 b=a+[3]", "b->4 result=b+[4]", "result->0"},
              {"input->3", "-", "-", "result<-3"},
              {"a=[2]+input", "a->1 b=[1]+a", "b->5 result=b+[5]", "result->2"},
              {"-", "input->5 a=input+[5]", "a->1 result=[1]+a", "-"},
              {"-", "input->4 a=[4]+input", "a->3 result=[3]+a", "-"},
          });
}

TEST_CASE("recursive doubling sends a copy of the input where it writes the result in the same step") {
    CHECK(test::steps_of(allfold::all_reduce, recursive_doubling{}, 2) ==
          test::table{{"a=input a->1 result=input+[1]"}, {"a=input a->0 result=[0]+input"}});
    CHECK(test::steps_of(allfold::all_reduce, recursive_doubling{}, 3)[2][1] == "a=input a->1 result=[1]+input");
}

TEST_CASE("recursive doubling is proved up to P = 4096 and costs what it says") {
    int most_scratch = 0;
    test::prove_for(allfold::all_reduce, recursive_doubling{}, test::sizes_up_to(4096),
                    [&](const allfold::proof& p, const auto& ranks) {
                        const bool pairs = ranks.extra > 0;
                        CHECK(p.rounds == ranks.levels + (pairs ? 2 : 0));
                        CHECK(p.busiest_blocks_sent == ranks.levels + (pairs ? 1 : 0));
                        CHECK(p.busiest_folds == ranks.levels + (pairs ? 1 : 0));
                        CHECK(p.messages == ranks.leaves() * ranks.levels + 2 * ranks.extra);
                        most_scratch = std::max(most_scratch, p.scratch_slots);
                    });
    CHECK(most_scratch == all_reduce::scratch_slots);
}

TEST_CASE("recursive doubling is proved for a hundred thousand ranks") {
    int size = 100000;  // not a constant, or the compiler would try to evaluate the proof itself
    CHECK(allfold::prove(allfold::all_reduce, recursive_doubling{}, size).busiest_blocks_sent == 17);
}
