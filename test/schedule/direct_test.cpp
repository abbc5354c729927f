// SPDX-License-Identifier: BSL-1.0
#include "allfold/schedule/direct.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "test/schedule/proofs.hpp"
#include "test/schedule/steps.hpp"

using allfold::direct;

static_assert(direct::all_reduce::keeps == allfold::order::tree);
static_assert(test::proved_up_to<allfold::all_reduce, direct{}, 32>);
static_assert(test::proved_up_to<allfold::reduce_scatter, direct{}, 32>);
static_assert(test::proved_up_to<allfold::all_gather, direct{}, 32>);
static_assert(test::proved_up_to<allfold::broadcast, direct{}, 32>);
static_assert(test::proved_up_to<allfold::all_to_all, direct{}, 32>);
static_assert(test::proved_up_to<allfold::permute, direct{}, 32>);

TEST_CASE("the steps of direct at P = 3 are these") {
    CHECK(test::steps_of(allfold::all_reduce, direct{}, 3) ==
          test::table{
              {"input{p}->all result{0}=ordered([all],input)", "result{0}->all result{p}<-all"},
              {"input{p}->all result{1}=ordered([all],input)", "result{1}->all result{p}<-all"},
              {"input{p}->all result{2}=ordered([all],input)", "result{2}->all result{p}<-all"},
          });
    CHECK(test::steps_of(allfold::reduce_scatter, direct{}, 3)[2][0] == "input{p}->all result{2}=ordered([all],input)");
    CHECK(test::steps_of(allfold::all_gather, direct{}, 3)[2][0] == "result{2}=input input{2}->all result{p}<-all");
    CHECK(test::steps_of(allfold::broadcast, direct{}, 3, 1) ==
          test::table{{"result<-1"}, {"result=input input->all"}, {"result<-1"}});
}

TEST_CASE("direct is proved for many ranks and costs what it says") {
    const std::vector<int> sizes = test::sizes_up_to(test::many / 4);
    test::prove_for(allfold::all_reduce, direct{}, sizes, [](const allfold::proof& p, const auto&) {
        CHECK(p.rounds == 2 * std::min(p.size - 1, 1));
        CHECK(p.busiest_blocks_sent == 2 * (p.size - 1));
        CHECK(p.busiest_folds == p.size - 1);
        CHECK(p.scratch_slots == 0);
    });
    test::prove_for(allfold::reduce_scatter, direct{}, sizes, [](const allfold::proof& p, const auto&) {
        CHECK(p.busiest_blocks_sent == p.size - 1);
        CHECK(p.busiest_folds == p.size - 1);
    });
    test::prove_for(allfold::all_gather, direct{}, sizes, [](const allfold::proof& p, const auto&) {
        CHECK(p.busiest_blocks_sent == p.size - 1);
        CHECK(p.folds == 0);
    });
    test::prove_for(allfold::broadcast, direct{}, sizes, [](const allfold::proof& p, const auto&) {
        CHECK(p.messages == p.size - 1);
        CHECK(p.rounds == std::min(p.size - 1, 1));
    });
}

TEST_CASE("the steps of permutations of 4 ranks are these") {
    CHECK(test::steps_of(allfold::permute, direct{}, 4, 3) ==
          test::table{{"input->3 result<-1"}, {"input->0 result<-2"}, {"input->1 result<-3"}, {"input->2 result<-0"}});
    const std::vector<int> list{2, 1, 3, 0};
    CHECK(test::steps_of(allfold::permute, direct{}, {.size = 4, .destinations = list.data()}) ==
          test::table{{"input->2 result<-3"}, {"result=input"}, {"input->3 result<-0"}, {"input->0 result<-2"}});
}

TEST_CASE("permutations are proved for every shift of a few ranks and any list, and cost one message") {
    for (int size = 1; size <= 70; ++size)
        for (int by = 0; by < size; ++by) {
            const allfold::proof p = allfold::prove(allfold::permute, direct{}, size, by);
            INFO(allfold::explain(p) << ", shift " << by);
            REQUIRE(p.ok());
            REQUIRE(p.rounds == std::min(size - 1, 1));
            REQUIRE(p.messages == (by == 0 ? 0 : size));
            REQUIRE(p.busiest_blocks_sent == (by == 0 ? 0 : 1));
        }
    std::mt19937 random(20);
    for (const int size : test::sizes_up_to(test::many / 4)) {
        std::vector<int> list(static_cast<std::size_t>(size));
        std::iota(list.begin(), list.end(), 0);
        std::ranges::shuffle(list, random);
        const auto p = allfold::prove(allfold::permute, direct{}, {.size = size, .destinations = list.data()});
        INFO(allfold::explain(p));
        REQUIRE(p.ok());
        int kept = 0;
        for (int r = 0; r < size; ++r) kept += list[static_cast<std::size_t>(r)] == r ? 1 : 0;
        CHECK(p.messages == size - kept);
    }
}

TEST_CASE("a permutation that is not the one that was promised is not proved") {
    const std::vector<int> list{1, 2, 0}, other{2, 0, 1};
    allfold::claim claimed = allfold::claim_of(allfold::permute, direct{});
    claimed.destinations = other.data();
    const allfold::setting where{.size = 3, .destinations = list.data()};
    const auto p = allfold::prove(3, [&](int rank) { return direct::permute(where.at(rank)); }, claimed);
    CHECK(!p.ok());
    CHECK(p.what == allfold::fault::other_length);
}
