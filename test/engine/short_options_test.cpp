// SPDX-License-Identifier: BSL-1.0
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective.hpp"
#include "allfold/error.hpp"
#include "allfold/schedule/direct.hpp"
#include "allfold/schedule/recursive_doubling.hpp"
#include "test/engine/block_checks.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/short_calls.hpp"

/// @file
/// Calls that are made again with options: blocks, algorithms, deadlines.

using namespace test;
using communicator = allfold::thread_communicator;

namespace {

/// Blocks of many lengths, some of them empty, which are others in each `turn` although they have the same total.
allfold::partition uneven_blocks(int ranks, int turn) {
    std::vector<std::size_t> sizes(static_cast<std::size_t>(ranks));
    for (std::size_t i = 0; i < sizes.size(); ++i) sizes[(i + static_cast<std::size_t>(turn)) % sizes.size()] = i % 4;
    return allfold::partition::sizes(sizes);
}
/// all_to_all between ranks of which each knows what it sends and what it gets: a block of `turn` elements more to the
/// rank above than to any other one.
void check_uneven_all_to_all(communicator& comm, int turn, const std::string& where) {
    const int P = comm.size(), self = comm.rank();
    const auto length = [&](int from, int to) {
        return static_cast<std::size_t>((from + to) % 3 + ((from + 1) % P == to ? turn : 0));
    };
    std::vector<std::size_t> sent(static_cast<std::size_t>(P)), received(sent);
    std::vector<int> in, expected;
    for (int r = 0; r < P; ++r) {
        sent[static_cast<std::size_t>(r)] = length(self, r);
        received[static_cast<std::size_t>(r)] = length(r, self);
        for (std::size_t i = 0; i < length(self, r); ++i) in.push_back(self * 100 + r + turn * 10000);
        for (std::size_t i = 0; i < length(r, self); ++i) expected.push_back(r * 100 + self + turn * 10000);
    }
    std::vector<int> out(expected.size());
    allfold::all_to_all(comm, in, out, allfold::input_blocks{allfold::partition::sizes(sent)},
                        allfold::output_blocks{allfold::partition::sizes(received)});
    expect(out == expected, where + ": all_to_all");
}

}  // namespace

TEST_CASE("calls that name their blocks are remembered with these blocks") {
    for (const int P : {2, 3, 4, 5, 8, 13, 16})
        on_ranks(P, [P](communicator& comm) {
            for (int time = 0; time < 4; ++time)
                for (const int turn : {0, 1, P - 1}) {
                    const std::string where = "P = " + std::to_string(P) + ", blocks " + std::to_string(turn) +
                                              ", time " + std::to_string(time);
                    const allfold::partition blocks = uneven_blocks(P, turn);
                    check_blocks(comm, blocks, time, where, blocks);
                    check_uneven_all_to_all(comm, turn, where);
                }
            std::vector<int> x(uneven_blocks(P, 0).total(), 1);
            const auto reduce_scatter = [&] { allfold::reduce_scatter(comm, x, allfold::sum(), uneven_blocks(P, 0)); };
            reduce_scatter();
            expect(!goes_the_short_way(comm, reduce_scatter), "blocks may be others in each call");
            expect(goes_the_short_way(comm, reduce_scatter), "the third time they are known");
            expect(!goes_the_short_way(comm,
                                       [&] { allfold::reduce_scatter(comm, x, allfold::sum(), uneven_blocks(P, 1)); }),
                   "other blocks of the same total");
        });
    SUCCEED();
}

TEST_CASE("calls with a deadline or an algorithm without parameters are remembered") {
    for (const int P : {2, 3, 8})
        on_ranks(P, [P](communicator& comm) {
            const std::string where = "P = " + std::to_string(P);
            const problem<matrices> p(P, 5);
            const allfold::deadline limit{std::chrono::minutes(5)};
            std::vector<matrix> out(5);
            const auto fold = [&](auto... options) {
                return [&, options...] {
                    std::ranges::fill(out, matrices::margin());
                    allfold::all_reduce(comm, p.operand(comm.rank()), out, p.op, options...);
                    expect_equal(out, p.total(), where);
                };
            };
            fold(allfold::direct{})();
            expect(!goes_the_short_way(comm, fold(limit)), where + ": no algorithm is not the same as this one");
            for (int time = 0; time < 3; ++time) {
                expect(goes_the_short_way(comm, fold(limit)), where + ", with a deadline");
                expect(goes_the_short_way(comm, fold()), where + ", without");
                expect(goes_the_short_way(comm, fold(allfold::direct{})), where + ", direct");
                expect(goes_the_short_way(comm, fold(limit, allfold::direct{})), where + ", direct, with a deadline");
            }
            fold(allfold::recursive_doubling{})();
            fold(allfold::recursive_doubling{}, limit)();
        });
    SUCCEED();
}

TEST_CASE("ranks that name different algorithms in a call that they have made before learn it") {
    const auto outcomes = outcomes_on_ranks(2, [](communicator& comm) {
        int x = 1;
        for (int time = 0; time < 4; ++time) {
            if (comm.rank() == 1) allfold::all_reduce(comm, x, allfold::sum(), allfold::direct{});
            if (comm.rank() == 0 && time < 3) allfold::all_reduce(comm, x, allfold::sum(), allfold::direct{});
            if (comm.rank() == 0 && time == 3) allfold::all_reduce(comm, x, allfold::sum());
        }
    });
    for (const outcome& each : outcomes) {
        INFO(each.text);
        CHECK((each.code == allfold::errc::mismatch || each.code == allfold::errc::peer_failed));
    }
    CHECK(std::ranges::any_of(outcomes, [](const outcome& each) { return each.says("direct"); }));
}

TEST_CASE("the deadline of a call that was made before passes, and that of the next call counts anew") {
    for (const int P : {2, 3}) {
        std::atomic<bool> is_over = false;
        const auto outcomes = outcomes_on_ranks(P, [&](communicator& comm) {
            int x = 1;
            const allfold::deadline limit{std::chrono::milliseconds(200)}, long_one{std::chrono::minutes(5)};
            for (int time = 0; time < 3; ++time) allfold::all_reduce(comm, x, allfold::sum(), long_one);
            if (comm.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
            allfold::all_reduce(comm, x, allfold::sum());  // without one: the one before has nothing to do with it
            while (comm.rank() == P - 1 && !is_over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            try {
                allfold::all_reduce(comm, x, allfold::sum(), limit);
            } catch (...) {
                is_over = true;
                throw;
            }
        });
        for (int r = 0; r < P; ++r) {
            INFO("P = " << P << ", rank " << r << ": " << outcomes[static_cast<std::size_t>(r)].text);
            CHECK(outcomes[static_cast<std::size_t>(r)].code.has_value());
        }
        CHECK(std::ranges::any_of(outcomes, [](const outcome& each) { return each.code == allfold::errc::timeout; }));
    }
}

TEST_CASE("started calls that name their blocks are remembered") {
    for (const int P : {2, 3, 8})
        on_ranks(P, [P](communicator& comm) {
            for (int time = 0; time < 4; ++time) {
                const allfold::partition blocks = uneven_blocks(P, time % 2);
                std::vector<int> block(blocks.extent(comm.rank()), comm.rank()), all(blocks.total(), -1);
                const std::uint64_t before = short_calls_of(comm);
                allfold::all_gather.start(comm, block, all, blocks).wait();
                for (int r = 0; r < P; ++r)
                    for (std::size_t i = 0; i < blocks.extent(r); ++i)
                        expect(all[blocks.offset(r) + i] == r, "P = " + std::to_string(P));
                for (int i = 0; i < 2; ++i) allfold::all_gather.start(comm, block, all, blocks).wait();
                expect(short_calls_of(comm) > before, "the third one");
            }
        });
    SUCCEED();
}

TEST_CASE("ranks that name different blocks in a call that they have made before learn it") {
    const auto outcomes = outcomes_on_ranks(2, [](communicator& comm) {
        std::vector<int> x(4, 1);
        for (int time = 0; time < 4; ++time) {
            const bool is_other = time == 3 && comm.rank() == 1;
            allfold::reduce_scatter(comm, x, allfold::sum(),
                                    is_other ? allfold::partition::sizes({3, 1}) : allfold::partition::sizes({1, 3}));
        }
    });
    CHECK(std::ranges::any_of(
        outcomes, [](const outcome& each) { return each.code == allfold::errc::mismatch && each.says("but rank"); }));
    for (const outcome& each : outcomes) {
        INFO(each.text);
        CHECK(each.code.has_value());
    }
}
