// SPDX-License-Identifier: BSL-1.0
#include "allfold/schedule/binomial.hpp"

#include "allfold/schedule/detail/doubling.hpp"
#include "test/schedule/proofs.hpp"
#include "test/schedule/steps.hpp"

using allfold::binomial;
using allfold::detail::ceil_log2;

static_assert(binomial::reduce::keeps == allfold::order::tree);
static_assert(test::proved_up_to<allfold::reduce, binomial{}, 32>);
static_assert(test::proved_up_to<allfold::broadcast, binomial{}, 32>);
static_assert(test::proved_up_to<allfold::gather, binomial{}, 32>);
static_assert(test::proved_up_to<allfold::scatter, binomial{}, 32>);

TEST_CASE("the steps of a binomial reduce to rank 2 of 6 are these") {
    CHECK(test::steps_of(allfold::reduce, binomial{}, 6, 2) ==
          test::table{
              {"input->1", "-", "-"},
              {"a=[0]+input", "a->2", "-"},
              {"result=input+[3]", "result=[1]+result", "result=result+[5]"},
              {"input->2", "-", "-"},
              {"-", "input->5", "-"},
              {"-", "a=[4]+input", "a->2"},
          });
}

TEST_CASE("the steps of a binomial broadcast from rank 2 of 6 are these") {
    CHECK(test::steps_of(allfold::broadcast, binomial{}, 6, 2) == test::table{
                                                                      {"-", "-", "result<-1"},
                                                                      {"-", "result<-2", "result->0"},
                                                                      {"result=input input->5", "input->1", "input->3"},
                                                                      {"-", "-", "result<-2"},
                                                                      {"-", "result<-5", "-"},
                                                                      {"result<-2", "result->4", "-"},
                                                                  });
}

TEST_CASE("the steps of a binomial scatter from rank 2 of 6 are these") {
    CHECK(test::steps_of(allfold::scatter, binomial{}, 6, 2) ==
          test::table{
              {"a{0,1}<-2", "-", "result{0}=a a{1}->1"},
              {"-", "-", "result{1}<-0"},
              {"result{2}=input input{0,1}->0", "input{4,5}->4", "input{3}->3"},
              {"-", "-", "result{3}<-2"},
              {"-", "a{4,5}<-2", "result{4}=a a{5}->5"},
              {"-", "-", "result{5}<-4"},
          });
}

TEST_CASE("binomial trees are proved for every root") {
    for (int size = 1; size <= 70; ++size)
        for (int root = 0; root < size; ++root) {
            const allfold::proof reduced = allfold::prove(allfold::reduce, binomial{}, size, root);
            const allfold::proof sent = allfold::prove(allfold::broadcast, binomial{}, size, root);
            const allfold::proof scattered = allfold::prove(allfold::scatter, binomial{}, size, root);
            INFO("root " << root << "\n"
                         << allfold::explain(reduced) << "\n"
                         << allfold::explain(sent) << "\n"
                         << allfold::explain(scattered));
            REQUIRE((reduced.ok() && sent.ok() && scattered.ok()));
            REQUIRE(reduced.rounds == ceil_log2(size));
            REQUIRE(sent.rounds == ceil_log2(size));
        }
}

TEST_CASE("binomial trees are proved up to P = 4096 and cost what they say") {
    test::prove_for(allfold::reduce, binomial{}, test::sizes_up_to(4096), [](const allfold::proof& p, const auto&) {
        CHECK(p.messages == p.size - 1);
        CHECK(p.busiest_blocks_sent == std::min(p.size - 1, 1));
        CHECK(p.folds == p.size - 1);
        CHECK(p.busiest_folds <= ceil_log2(p.size));
    });
    test::prove_for(allfold::broadcast, binomial{}, test::sizes_up_to(4096), [](const allfold::proof& p, const auto&) {
        CHECK(p.messages == p.size - 1);
        CHECK(p.busiest_blocks_sent <= ceil_log2(p.size));
        CHECK(p.folds == 0);
    });
    test::prove_for(allfold::gather, binomial{}, test::sizes_up_to(test::many / 4),
                    [](const allfold::proof& p, const auto&) {
                        CHECK(p.rounds == ceil_log2(p.size));
                        CHECK(p.messages == p.size - 1);
                    });
    test::prove_for(allfold::scatter, binomial{}, test::sizes_up_to(test::many / 4),
                    [](const allfold::proof& p, const auto&) {
                        CHECK(p.rounds == ceil_log2(p.size));
                        CHECK(p.messages == p.size - 1);
                        CHECK(p.busiest_blocks_sent == p.size - 1);
                    });
}
