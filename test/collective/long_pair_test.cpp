// SPDX-License-Identifier: BSL-1.0
// With two ranks, long operands that are not folded are moved by both: each rank stores its part where it belongs, even
// in the memory of the other one.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "allfold/collective/all_gather.hpp"
#include "allfold/collective/broadcast.hpp"
#include "allfold/collective/gather.hpp"
#include "allfold/data/partition.hpp"
#include "allfold/engine/choose.hpp"
#include "test/collective/all_gather_checks.hpp"
#include "test/collective/broadcast_checks.hpp"
#include "test/collective/gather_checks.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"
#include "test/support/problems.hpp"
#include "test/support/ranks.hpp"

using namespace test;

namespace {

/// Too long to be copied between two ranks, and so is half of it.
const problem<integers> long_problem(2, 2 * allfold::choose_tuning{}.copied_bytes / sizeof(int) + 1003);

/// Runs two ranks that are near each other, and two that are far.
template <class Fn>
void on_pairs(Fn fn) {
    for (const auto& tuning : {allfold::thread_tuning(), scattered}) on_ranks(2, fn, tuning);
}

}  // namespace

TEST_CASE("two ranks move halves of a long broadcast each, from any root") {
    on_pairs([](auto& comm) {
        for (const int root : {0, 1}) check_broadcast(comm, long_problem, root, place_of(comm, long_problem));
    });
    SUCCEED();
}

TEST_CASE("two ranks store long blocks of any length where they are gathered") {
    on_pairs([](auto& comm) {
        for (const auto& blocks : partitions_of(long_problem.size(), 2)) {
            const std::string where = place_of(comm, long_problem);
            check_all_gather(comm, long_problem, blocks, where, blocks);
            for (const int root : {0, 1}) check_gather(comm, long_problem, root, blocks, where, blocks);
        }
    });
    SUCCEED();
}

TEST_CASE("two ranks gather long blocks along an axis, whose pieces lie apart") {
    constexpr std::size_t rows = 64, columns = 6000;  // the blocks are two halves of each row
    on_pairs([](auto& comm) {
        std::vector<int> mine(rows * columns / 2), all(rows * columns, -1);
        for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = integers::sample(comm.rank(), i);
        allfold::all_gather(comm, allfold::tensor<const int, 2>(mine.data(), {rows, columns / 2}),
                            allfold::tensor<int, 2>(all.data(), {rows, columns}), allfold::axis{1});
        for (std::size_t i = 0; i < all.size(); ++i) {
            const std::size_t row = i / columns, column = i % columns, half = columns / 2;
            expect(all[i] == integers::sample(static_cast<int>(column / half), row * half + column % half),
                   "element " + std::to_string(i) + " is wrong");
        }
    });
    SUCCEED();
}

TEST_CASE("two ranks whose long broadcasts differ in length get a mismatch") {
    const auto outcomes = outcomes_on_ranks(2, [](auto& comm) {
        std::vector<int> x(long_problem.size() + static_cast<std::size_t>(comm.rank()));
        allfold::broadcast(comm, x);
    });
    for (const outcome& each : outcomes) CHECK_FALSE(each.succeeded());
    CHECK(std::ranges::count(outcomes, std::optional(allfold::errc::mismatch), &outcome::code) > 0);
}
