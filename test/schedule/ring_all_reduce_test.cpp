// SPDX-License-Identifier: BSL-1.0
#include "allfold/schedule/ring.hpp"
#include "test/schedule/proofs.hpp"
#include "test/schedule/steps.hpp"

/// @file
/// Separate from ring_test.cpp because the compile-time proofs need a lot of memory.

using allfold::ring;

static_assert(ring::all_reduce::keeps == allfold::order::any);
static_assert(ring::all_reduce::scratch_slots == 0 && ring::all_reduce::in_place);
static_assert(test::proved_up_to<allfold::all_reduce, ring{}, 32>);

TEST_CASE("a ring all_reduce at P = 3 folds in the result, without scratch and without a copy") {
    CHECK(test::steps_of(allfold::all_reduce, ring{}, 3)[0] ==
          std::vector<std::string>{"input{2}->1 result{1}=[2]+input", "result{1}->1 result{0}=[2]+input",
                                   "result{0}->1 result{2}<-2", "result{2}->1 result{1}<-2"});
}

TEST_CASE("a ring talks to neighbours only") {
    for (const int size : {2, 3, 8, 13})
        for (int r = 0; r < size; ++r)
            for (int round = 0; round < 2 * (size - 1); ++round) {
                const allfold::step s = ring::all_reduce({r, size})[round];
                CHECK(s.to == allfold::peers::one((r + 1) % size));
                CHECK(s.from == allfold::peers::one((r + size - 1) % size));
            }
}

TEST_CASE("a ring all_reduce is proved up to P = 512 and costs what it says") {
    test::prove_for(allfold::all_reduce, ring{}, test::sizes_up_to(512), [](const allfold::proof& p, const auto&) {
        CHECK(p.rounds == 2 * (p.size - 1));
        CHECK(p.busiest_blocks_sent == 2 * (p.size - 1));
        CHECK(p.busiest_folds == p.size - 1);
        CHECK(p.scratch_slots == 0);
    });
}
