// SPDX-License-Identifier: BSL-1.0
#include "allfold/schedule/linear.hpp"

#include <algorithm>

#include "test/schedule/proofs.hpp"
#include "test/schedule/steps.hpp"

using allfold::linear;

static_assert(test::proved_up_to<allfold::gather, linear{}, 32>);

TEST_CASE("a linear gather is proved for many ranks and costs what it says") {
    test::prove_for(allfold::gather, linear{}, test::sizes_up_to(test::many / 4),
                    [](const allfold::proof& p, const auto&) {
                        CHECK(p.rounds == std::min(p.size - 1, 1));
                        CHECK(p.messages == p.size - 1);
                    });
}
