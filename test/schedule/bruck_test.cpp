// SPDX-License-Identifier: BSL-1.0
#include "allfold/schedule/bruck.hpp"

#include <algorithm>

#include "allfold/schedule/detail/doubling.hpp"
#include "test/schedule/proofs.hpp"
#include "test/schedule/steps.hpp"

using allfold::bruck;
using allfold::detail::ceil_log2;

static_assert(test::proved_up_to<allfold::all_to_all, bruck{}, 32>);

TEST_CASE("Bruck's all_to_all is proved for many ranks and costs what it says") {
    test::prove_for(allfold::all_to_all, bruck{}, test::sizes_up_to(test::many / 4),
                    [](const allfold::proof& p, const auto&) {
                        CHECK(p.rounds == (p.size > 1 ? ceil_log2(p.size) + 2 : 0));
                        CHECK(p.messages == p.size * ceil_log2(p.size));
                        CHECK(p.busiest_blocks_sent <= (p.size + 1) / 2 * ceil_log2(p.size));
                    });
}
