// SPDX-License-Identifier: BSL-1.0
#include "allfold/schedule/scatter_all_gather.hpp"

#include "test/schedule/proofs.hpp"
#include "test/schedule/steps.hpp"

using allfold::scatter_all_gather;
using allfold::detail::ceil_log2;

static_assert(scatter_all_gather::broadcast::scratch_slots == 0 && scatter_all_gather::broadcast::in_place);
static_assert(test::proved_up_to<allfold::broadcast, scatter_all_gather{}, 32>);

TEST_CASE("the steps of a broadcast by scatter and all-gather at P = 3, root 1, are these") {
    CHECK(test::steps_of(allfold::broadcast, scatter_all_gather{}, 3, 1) ==
          test::table{
              {"result{0}<-1", "-", "result{0}->2 result{1}<-1", "result{2}<-2"},
              {"result{0,1,2}=input input{0}->0", "input{2}->2", "result{1}->0", "result{1}->2"},
              {"-", "result{2}<-1", "result{0}<-0", "result{2}->0 result{1}<-1"},
          });
}

TEST_CASE("a broadcast by scatter and all-gather is proved for many ranks, and costs what it says") {
    test::prove_for(allfold::broadcast, scatter_all_gather{}, test::sizes_up_to(test::many),
                    [](const allfold::proof& p, const auto&) {
                        CHECK(p.rounds == 2 * ceil_log2(p.size));
                        CHECK(p.busiest_blocks_sent == 2 * (p.size - 1));
                        CHECK(p.scratch_slots == 0);
                    });
}

TEST_CASE("of a broadcast by scatter and all-gather nothing goes to the root") {
    for (const int size : {2, 3, 8, 13})
        for (int r = 0; r < size; ++r)
            for (const int root : {0, size - 1}) {
                const scatter_all_gather::broadcast s({r, size, root});
                for (int round = 0; round < s.rounds(); ++round) CHECK(!s[round].to.contains(root, r));
            }
}
