// SPDX-License-Identifier: BSL-1.0
#include "allfold/schedule/recursive_halving.hpp"

#include "test/schedule/proofs.hpp"
#include "test/schedule/steps.hpp"

using allfold::recursive_halving;

static_assert(recursive_halving::reduce_scatter::keeps == allfold::order::tree);
static_assert(recursive_halving::all_reduce::keeps == allfold::order::tree &&
              recursive_halving::all_reduce::scratch_slots == 0);
static_assert(test::proved_up_to<allfold::reduce_scatter, recursive_halving{}, 32>);
static_assert(test::proved_up_to<allfold::all_gather, recursive_halving{}, 32>);
static_assert(test::proved_up_to<allfold::all_reduce, recursive_halving{}, 32>);

TEST_CASE("the steps of recursive halving at P = 4 are these") {
    CHECK(test::steps_of(allfold::reduce_scatter, recursive_halving{}, 4) ==
          test::table{
              {"input{1,3}->1 a{0,2}=input+[1]", "a{2}->2 result{0}=a+[2]"},
              {"input{0,2}->0 a{1,3}=[0]+input", "a{3}->3 result{1}=a+[3]"},
              {"input{1,3}->3 a{0,2}=input+[3]", "a{0}->0 result{2}=[0]+a"},
              {"input{0,2}->2 a{1,3}=[2]+input", "a{1}->1 result{3}=[1]+a"},
          });
}

TEST_CASE("the steps of recursive halving at P = 3, with one pair, are these") {
    CHECK(test::steps_of(allfold::reduce_scatter, recursive_halving{}, 3) ==
          test::table{
              {"input{0,1,2}->1", "-", "result{0}<-1"},
              {"a{0,1,2}=[0]+input", "a{2}->2 a{0,1}=a+[2]", "result{1}=a a{0}->0"},
              {"-", "input{0,1}->1 result{2}=[1]+input", "-"},
          });
    CHECK(test::steps_of(allfold::all_gather, recursive_halving{}, 3) ==
          test::table{
              {"result{0}=input result{0}->1", "-", "result{1,2}<-1"},
              {"result{1}=input result{0}<-0", "result{0,1}->2 result{2}<-2", "result{1,2}->0"},
              {"result{2}=input", "result{2}->1 result{0,1}<-1", "-"},
          });
    CHECK(test::steps_of(allfold::all_reduce, recursive_halving{}, 3) ==
          test::table{
              {"input{0,1,2}->1", "-", "-", "result{0,1,2}<-1"},
              {"result{0,1,2}=[0]+input", "result{2}->2 result{0,1}=result+[2]", "result{0,1}->2 result{2}<-2",
               "result{0,1,2}->0"},
              {"-", "input{0,1}->1 result{2}=[1]+input", "result{2}->1 result{0,1}<-1", "-"},
          });
}

TEST_CASE("the blocks of leaves that end in the same bits are those of their ranks") {
    for (const int size : {2, 3, 6, 8, 11, 13, 31, 100}) {
        const allfold::power_of_two_fold ranks(size);
        for (int bits = 0; bits <= ranks.levels; ++bits)
            for (int leaf = 0; leaf < ranks.leaves(); ++leaf) {
                std::vector<int> expected, found;
                for (int block = 0; block < size; ++block)
                    if ((ranks.leaf_of(block) ^ leaf) % (1 << bits) == 0) expected.push_back(block);
                const allfold::block_set blocks = allfold::detail::blocks_of_leaves(leaf, bits, ranks);
                for (int i = 0; i < blocks.size(); ++i) found.push_back(blocks[i]);
                INFO("P = " << size << ", leaf " << leaf << ", " << bits << " bits");
                REQUIRE(found == expected);
            }
    }
}

TEST_CASE("recursive halving is proved for many ranks and costs what it says") {
    const std::vector<int> sizes = test::sizes_up_to(test::many / 4);
    test::prove_for(allfold::reduce_scatter, recursive_halving{}, sizes,
                    [](const allfold::proof& p, const auto& ranks) {
                        CHECK(p.rounds == ranks.levels + (ranks.extra ? 2 : 0));
                        CHECK(p.busiest_blocks_sent == (ranks.extra ? p.size : p.size - 1));
                        if (ranks.extra == 0) CHECK(p.busiest_folds == p.size - 1);
                        if (ranks.extra == 1) CHECK(p.busiest_folds == 2 * p.size + ranks.levels - 2);
                        if (ranks.extra > 1) CHECK(p.busiest_folds <= 2 * p.size + ranks.levels - 2);
                    });
    test::prove_for(allfold::all_gather, recursive_halving{}, sizes, [](const allfold::proof& p, const auto& ranks) {
        CHECK(p.rounds == ranks.levels + (ranks.extra ? 2 : 0));
        if (ranks.extra == 0) CHECK(p.busiest_blocks_sent == p.size - 1);
        if (ranks.extra == 1) CHECK(p.busiest_blocks_sent == 2 * p.size + ranks.levels - 3);
        if (ranks.extra > 1) CHECK(p.busiest_blocks_sent <= 2 * p.size + ranks.levels - 3);
    });
    test::prove_for(allfold::all_reduce, recursive_halving{}, sizes, [](const allfold::proof& p, const auto& ranks) {
        CHECK(p.rounds == 2 * ranks.levels + (ranks.extra ? 2 : 0));
        if (ranks.extra == 0) CHECK(p.busiest_blocks_sent == 2 * (p.size - 1));
        if (ranks.extra == 1) CHECK(p.busiest_blocks_sent == 3 * p.size + ranks.levels - 4);
        if (ranks.extra > 1) CHECK(p.busiest_blocks_sent <= 3 * p.size + ranks.levels - 4);
        CHECK(p.busiest_folds <= 2 * p.size + ranks.levels - 2);
    });
}
