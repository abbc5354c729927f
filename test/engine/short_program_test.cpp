// SPDX-License-Identifier: BSL-1.0
#include "allfold/engine/short_program.hpp"

#include <cstddef>

#include "allfold/data/partition.hpp"
#include "allfold/engine/operands.hpp"
#include "allfold/engine/rows.hpp"
#include "allfold/schedule/any_schedule.hpp"
#include "allfold/schedule/ring.hpp"
#include "test/support/catch.hpp"

using namespace allfold::detail;

namespace {

constexpr row_functions bytes_functions{};
constexpr std::size_t row_bytes = 1;

/// What a short program is made from: an all_gather of bytes in which nothing is lent.
struct planned_gather {
    struct ranks {
        int self, all;
        [[nodiscard]] int rank() const noexcept { return self; }
        [[nodiscard]] int size() const noexcept { return all; }
    };
    planned_gather(int rank, int size, std::size_t bytes)
        : comm{rank, size},
          blocks(allfold::partition::even(bytes, size)),
          schedule(allfold::ring::all_gather({rank, size}), "ring") {
        memory.blocks = memory.result_blocks = &blocks;
        memory.window_rows = blocks.largest();
        memory.input.first_row = blocks.offset(rank);
    }
    [[nodiscard]] static bool lends(std::size_t) noexcept { return false; }

    ranks comm;
    allfold::partition blocks;
    allfold::any_schedule schedule;
    row_layout rows{&bytes_functions, nullptr, &row_bytes, row_bytes};
    operands memory{};
};

}  // namespace

TEST_CASE("what is copied to the result and sent from there is sent from the input, before it is copied") {
    constexpr std::size_t bytes = 30;
    for (const int size : {2, 3})
        for (int rank = 0; rank < size; ++rank) {
            const planned_gather call(rank, size, bytes);
            short_program program;
            REQUIRE(program.make(call));
            const auto& first = program[0];
            CHECK(first.local == allfold::local_work::kind::copy);
            CHECK_FALSE(first.sends_result);
            CHECK_FALSE(first.is_local_first);
            REQUIRE(first.to.size() == 1);
            CHECK(first.to[0].rows.first == 0);  // a row of the input, which is just this rank's block
            CHECK(first.to[0].bytes == call.blocks.extent(rank));
        }
}

TEST_CASE("what has been received is sent on from the result") {
    const planned_gather call(0, 3, 30);
    short_program program;
    REQUIRE(program.make(call));
    REQUIRE(program.rounds() == 2);
    CHECK(program[1].sends_result);
    CHECK(program[1].to[0].rows.first == call.blocks.offset(2));
}
