// SPDX-License-Identifier: BSL-1.0
#include "allfold/analysis/verify_reduce_scatter.hpp"

#include <cstddef>
#include <string>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/check_laws.hpp"
#include "allfold/algebra/mean.hpp"
#include "allfold/algebra/operator.hpp"
#include "allfold/collective/reduce_scatter.hpp"
#include "allfold/data/partition.hpp"
#include "test/support/catch.hpp"
#include "test/support/ranks.hpp"

/// @file
/// The check of shards finds what is wrong with them.

using allfold::partition;
using allfold::sum;
using allfold::verify_reduce_scatter;
using fault = allfold::shard_report::fault;

namespace {

using vectors = std::vector<std::vector<double>>;

/// The shards of all ranks after a reduce_scatter.
template <class Op>
vectors shards_of(const vectors& inputs, const Op& op, const partition& blocks) {
    vectors shards(inputs.size());
    test::on_ranks(static_cast<int>(inputs.size()), [&](auto& comm) {
        const auto self = static_cast<std::size_t>(comm.rank());
        shards[self].resize(blocks.extent(comm.rank()));
        allfold::reduce_scatter(comm, inputs[self], shards[self], op, blocks);
    });
    return shards;
}
vectors some_inputs(int ranks, std::size_t n) {
    vectors inputs(static_cast<std::size_t>(ranks), std::vector<double>(n));
    for (std::size_t r = 0; r < inputs.size(); ++r)
        for (std::size_t i = 0; i < n; ++i) inputs[r][i] = static_cast<double>(10 * r + i * i % 7) + 0.5;
    return inputs;
}

}  // namespace

TEST_CASE("shards of a reduce_scatter are right, whatever the partition and the operator") {
    for (const int P : {1, 2, 3, 5})
        for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{13}}) {
            const vectors inputs = some_inputs(P, n);
            for (const partition& blocks : {partition::even(n, P), partition::ceil(n, P)}) {
                CHECK(verify_reduce_scatter(inputs, shards_of(inputs, sum(), blocks), sum(), blocks,
                                            allfold::within(1e-12)));
                CHECK(verify_reduce_scatter(inputs, shards_of(inputs, allfold::mean(), blocks), allfold::mean(), blocks,
                                            allfold::within(1e-12)));
                CHECK(verify_reduce_scatter(inputs, shards_of(inputs, allfold::max(), blocks), allfold::max(), blocks));
            }
        }
}

TEST_CASE("what is wrong with shards is found, and said") {
    const vectors inputs = some_inputs(3, 7);
    const partition blocks = partition::even(7, 3);
    const vectors right = shards_of(inputs, allfold::max(), blocks);
    REQUIRE(verify_reduce_scatter(inputs, right, allfold::max()));
    const auto report_of = [&](const vectors& shards) { return verify_reduce_scatter(inputs, shards, allfold::max()); };

    vectors wrong = right;
    wrong[2].back() += 1;
    CHECK((report_of(wrong).what == fault::value && report_of(wrong).rank == 2 && report_of(wrong).element == 6));
    CHECK(report_of(wrong).text() == "the shard of rank 2 is wrong at element 6 of the whole");

    wrong = {right[1], right[2], right[0]};  // block r + 1 on rank r
    CHECK_FALSE(report_of(wrong));
    wrong = right;
    wrong[1].push_back(0);
    CHECK(report_of(wrong).text() == "the shard of rank 1 has 3 elements, not 2");
    wrong.pop_back();
    CHECK(report_of(wrong).text() == "there are 2 shards for 3 inputs");
    wrong = {{inputs[0].begin(), inputs[0].begin() + 3}, right[1], right[2]};  // the operand of rank 0 alone
    CHECK((report_of(wrong).what == fault::value && report_of(wrong).rank == 0));

    vectors short_input = inputs;
    short_input[2].pop_back();
    const auto report = verify_reduce_scatter(short_input, right, allfold::max());
    CHECK(report.text() == "the input of rank 2 has 6 elements, not 7");
    CHECK((report.what == fault::input && report.rank == 2));
}

TEST_CASE("shards are compared with a fold in rank order") {
    const std::vector<std::vector<std::string>> inputs{{"a", "b"}, {"c", "d"}}, shards{{"ac"}, {"bd"}},
        other{{"ca"}, {"bd"}};
    const auto joined = allfold::associative([](const std::string& x, const std::string& y) { return x + y; });
    CHECK(verify_reduce_scatter(inputs, shards, joined));
    CHECK(verify_reduce_scatter(inputs, other, joined).rank == 0);
}
