// SPDX-License-Identifier: BSL-1.0
#include "allfold/schedule/pairwise.hpp"

#include <algorithm>

#include "test/schedule/proofs.hpp"
#include "test/schedule/steps.hpp"

using allfold::pairwise;

static_assert(test::proved_up_to<allfold::all_to_all, pairwise{}, 32>);

TEST_CASE("an exchange in pairs is proved for many ranks and costs what it says") {
    test::prove_for(allfold::all_to_all, pairwise{}, test::sizes_up_to(test::many / 4),
                    [](const allfold::proof& p, const auto&) {
                        CHECK(p.rounds == p.size - 1);
                        CHECK(p.busiest_blocks_sent == p.size - 1);
                    });
}
