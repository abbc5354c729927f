// SPDX-License-Identifier: BSL-1.0
#include "allfold/schedule/flat_tree.hpp"

#include "test/schedule/proofs.hpp"
#include "test/schedule/steps.hpp"

using allfold::flat_tree;

static_assert(flat_tree::all_reduce::keeps == allfold::order::tree);
static_assert(test::proved_up_to<allfold::barrier, flat_tree{}, 32>);
static_assert(test::proved_up_to<allfold::all_reduce, flat_tree{}, 32>);

TEST_CASE("the steps of the flat tree at P = 3 are these") {
    CHECK(test::steps_of(allfold::barrier, flat_tree{}, 3) ==
          test::table{{"<-all", "->all"}, {"->0", "<-0"}, {"->0", "<-0"}});
    CHECK(test::steps_of(allfold::all_reduce, flat_tree{}, 3) == test::table{
                                                                     {"result=ordered([all],input)", "result->all"},
                                                                     {"input->0", "result<-0"},
                                                                     {"input->0", "result<-0"},
                                                                 });
}

TEST_CASE("the flat tree is proved for many ranks and costs what it says") {
    test::prove_for(allfold::barrier, flat_tree{}, test::sizes_up_to(test::many),
                    [](const allfold::proof& p, const auto&) {
                        CHECK(p.rounds == (p.size > 1 ? 2 : 0));
                        CHECK(p.messages == 2 * (p.size - 1));
                    });
    test::prove_for(allfold::all_reduce, flat_tree{}, test::sizes_up_to(test::many),
                    [](const allfold::proof& p, const auto&) {
                        CHECK(p.rounds == (p.size > 1 ? 2 : 0));
                        CHECK(p.messages == 2 * (p.size - 1));
                        CHECK(p.busiest_blocks_sent == p.size - 1);
                        CHECK(p.busiest_folds == p.size - 1);
                    });
}
