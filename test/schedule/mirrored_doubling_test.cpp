// SPDX-License-Identifier: BSL-1.0
#include "allfold/schedule/mirrored_doubling.hpp"

#include <cstdlib>

#include "test/schedule/proofs.hpp"
#include "test/schedule/steps.hpp"

using allfold::mirrored_doubling;
using all_reduce = mirrored_doubling::all_reduce;

static_assert(all_reduce::keeps == allfold::order::tree);
static_assert(test::proved_up_to<allfold::all_reduce, mirrored_doubling{}, 32>);
static_assert(allfold::supports<all_reduce>(1) && allfold::supports<all_reduce>(64));
static_assert(!allfold::supports<all_reduce>(0) && !allfold::supports<all_reduce>(6));

namespace {

int partner(int rank, int size, int round) { return all_reduce({rank, size})[round].to.at(0, rank); }

int hops_on_ring(int a, int b, int size) { return std::min(std::abs(a - b), size - std::abs(a - b)); }

}  // namespace

TEST_CASE("the steps of mirrored doubling at P = 4 are these") {
    CHECK(test::steps_of(allfold::all_reduce, mirrored_doubling{}, 4) ==
          test::table{
              {"input->1 a=input+[1]", "a->3 result=a+[3]"},
              {"input->0 a=[0]+input", "a->2 result=a+[2]"},
              {"input->3 a=input+[3]", "a->1 result=[1]+a"},
              {"input->2 a=[2]+input", "a->0 result=[0]+a"},
          });
}

TEST_CASE("every message of four devices on a ring goes to a neighbour") {
    for (int r = 0; r < 4; ++r)
        for (int round = 0; round < 2; ++round) CHECK(hops_on_ring(r, partner(r, 4, round), 4) == 1);
}

TEST_CASE("in the last of many ranks' rounds a message goes P/4 hops on average and P/2 - 1 at most") {
    for (const int size : {4, 8, 16, 64}) {
        const int last = all_reduce({0, size}).rounds() - 1;
        int hops = 0, most = 0;
        for (int r = 0; r < size; ++r) {
            const int n = hops_on_ring(r, partner(r, size, last), size);
            hops += n;
            most = std::max(most, n);
        }
        CHECK(hops == size * size / 4);
        CHECK(most == size / 2 - 1);
    }
}

TEST_CASE("mirrored doubling is proved up to P = 4096 and costs what it says") {
    test::prove_for(allfold::all_reduce, mirrored_doubling{}, test::sizes_up_to(4096),
                    [](const allfold::proof& p, const auto& ranks) {
                        CHECK(p.rounds == ranks.levels);
                        CHECK(p.busiest_blocks_sent == ranks.levels);
                        CHECK(p.busiest_folds == ranks.levels);
                    });
    CHECK(allfold::prove(allfold::all_reduce, mirrored_doubling{}, 6).what == allfold::fault::unsupported);
}
