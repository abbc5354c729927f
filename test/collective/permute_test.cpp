// SPDX-License-Identifier: BSL-1.0
#include "allfold/collective/permute.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "allfold/analysis/proved_first.hpp"
#include "allfold/collective/barrier.hpp"
#include "allfold/data/records.hpp"
#include "allfold/data/tensor_view.hpp"
#include "test/collective/permute_checks.hpp"
#include "test/support/algebras.hpp"
#include "test/support/catch.hpp"
#include "test/support/groups.hpp"
#include "test/support/ranks.hpp"
#include "test/support/remote.hpp"
#include "test/support/require_codes.hpp"

using namespace test;
using allfold::destinations;
using allfold::errc;
using allfold::shift;

TEMPLATE_TEST_CASE("permute gives every rank the operand of another one", "", words, integers) {
    for_each_group([](int size, const allfold::thread_tuning& tuning) {
        const auto body = [&](auto& comm) {
            check_permute_with_all_algorithms<TestType>(
                comm,
                std::string(TestType::name) + ", rank " + std::to_string(comm.rank()) + " of " + std::to_string(size));
        };
        on_ranks(size, body, tuning);
    });
    SUCCEED();
}

TEST_CASE("permute works where ranks share no memory") {
    for (const int size : group_sizes)
        on_ranks(
            size,
            [&](auto& base) {
                remote comm(base);
                check_permute_with_all_algorithms<integers>(comm, std::to_string(size) + " ranks, remote");
            },
            roomy);
    SUCCEED();
}

TEST_CASE("permute can be started and prepared, and a list need not live as long as it runs") {
    on_ranks(3, [](auto& comm) {
        const int mine = comm.rank();
        int theirs = -1, x = comm.rank();
        auto started = allfold::permute.start(comm, mine, theirs, destinations{2, 0, 1});
        started.wait();
        expect(theirs == (comm.rank() + 1) % 3, "started");
        auto list = std::vector{1, 2, 0};
        auto prepared = allfold::permute.prepare(comm, x, destinations(list));
        list.assign(3, -1);
        for (int turn = 1; turn <= 3; ++turn) {
            prepared();
            expect(x == (comm.rank() + 2 * turn) % 3, "prepared, turn " + std::to_string(turn));
        }
    });
    SUCCEED();
}

TEST_CASE("a long operand is prepared with a list that becomes another one") {
    on_ranks(3, [](auto& comm) {
        destinations list{1, 2, 0};
        const destinations other{2, 0, 1};
        const auto mine = operand_of<integers>(comm.rank(), 20000);
        std::vector<integers::element> theirs(mine.size());
        auto prepared = allfold::permute.prepare(comm, mine, theirs, list);
        list = other;
        for (int turn = 0; turn < 2; ++turn) {
            prepared();
            expect(theirs == operand_of<integers>((comm.rank() + 2) % 3, mine.size()), "the later list is used");
        }
    });
    SUCCEED();
}

TEST_CASE("records of several columns have lengths of their own") {
    on_ranks(3, [](auto& comm) {
        const auto columns_of = [](int rank) {
            const auto n = 100 * static_cast<std::size_t>(rank);
            return std::pair(std::vector<float>(n, static_cast<float>(rank)), std::vector<double>(2 * n, rank));
        };
        const auto as_records = [](auto& both) {
            return allfold::records(
                allfold::tensor<float, 1>(both.first.data(), {both.first.size()}),
                allfold::tensor<double, 2>(both.second.data(), {both.first.size(), std::size_t{2}}));
        };
        const int from = (comm.rank() + 1) % 3;
        auto mine = columns_of(comm.rank()), theirs = columns_of(from);
        const auto expected = theirs;
        std::ranges::fill(theirs.first, -1.0F);
        std::ranges::fill(theirs.second, -1.0);
        allfold::permute(comm, as_records(mine), as_records(theirs), shift{-1});
        expect(theirs == expected, "wrong records");
    });
    SUCCEED();
}

TEST_CASE("permute returns what becomes of a value") {
    on_ranks(4, [](auto& comm) {
        const int before = allfold::permute(comm, int(comm.rank()), shift{1});
        expect(before == (comm.rank() + 3) % 4, "wrong value");
    });
    SUCCEED();
}

TEST_CASE("two ranks that change places are each other's neighbour on both sides (pitfall 20)") {
    on_ranks(2, [](auto& comm) {
        std::vector<int> right(5, comm.rank()), left(5, 10 + comm.rank());
        auto to_right = allfold::permute.start(comm, right, shift{1});
        auto to_left = allfold::permute.start(comm, left, shift{-1});
        if (comm.rank() == 0) to_left.wait();
        to_right.wait();
        to_left.wait();
        expect(right == std::vector(5, 1 - comm.rank()) && left == std::vector(5, 11 - comm.rank()), "mixed up");
    });
    SUCCEED();
}

TEST_CASE("equal permutations are equal, however they are specified") {
    on_ranks(3, [](auto& comm) {
        int x = comm.rank();
        if (comm.rank() == 0)
            allfold::permute(comm, x, destinations{1, 2, 0});
        else
            allfold::permute(comm, x, shift{comm.rank() == 1 ? 1 : -2});
        expect(x == (comm.rank() + 2) % 3, "wrong value");
    });
    SUCCEED();
}

TEST_CASE("calls that are made again keep different permutations and lengths apart") {
    on_ranks(4, [](auto& comm) {
        const std::vector<std::pair<destinations, int>> lists{{{1, 2, 3, 0}, 3}, {{3, 0, 1, 2}, 1}, {{2, 3, 0, 1}, 2}};
        for (int turn = 0; turn < 4; ++turn)
            for (const auto& [list, from] : lists)
                for (const std::size_t n : {1U, 3U}) {
                    std::vector<int> in(n, comm.rank()), out(n, -1);
                    allfold::permute(comm, in, out, list);
                    expect(out == std::vector(n, (comm.rank() + from) % 4), "a list is taken for another one");
                    out.assign(n, -1);
                    allfold::permute(comm, in, out, shift{-from});
                    expect(out == std::vector(n, (comm.rank() + from) % 4), "a shift is taken for another one");
                }
    });
    SUCCEED();
}

TEST_CASE("a permutation that is a list can be planned, and proved before it runs") {
    auto list = std::vector{1, 0, 3, 2};
    const allfold::plan planned = allfold::permute.plan(4, 100, destinations(list));
    list.clear();
    CHECK(planned.rounds() == 1);
    CHECK(planned.bytes_sent() == 100);
    CHECK(planned.schedule(2)[0].to == allfold::peers::one(3));
    CHECK_THROWS_AS(allfold::permute.plan(4, 100, destinations{0, 0, 1, 2}), allfold::error);
    on_ranks(4, [](auto& comm) {
        for (const auto& to : permutations_of(4))
            check_permute_in_place<integers>(comm, to, 5, "proved first", destinations(to), allfold::proved_first());
    });
}

namespace {

/// Whether `rank` sends to `peer` in the permutation that the option names.
template <class Option>
bool sends(const Option& named, int rank, int peer, int size) {
    return allfold::detail::call_options(named).setting_of(rank, size, 1).destination_of(rank) == peer;
}
/// Whether what was written is the operand of one rank, and both ranks agree that it is sent to this one: it may arrive
/// before the mismatch is found.
template <class OptionOf>
bool is_rightful(const std::vector<int>& written, int rank, int size, OptionOf option) {
    for (int from = 0; from < size; ++from)
        if (written == std::vector(written.size(), from))
            return sends(option(from), from, rank, size) && sends(option(rank), from, rank, size);
    return false;
}

/// The outcomes of a permute of `count(rank)` elements, which must fail on all ranks. None may write what was not meant
/// for it.
template <class Option>
std::vector<outcome> refused(int size, Option option, rank_lengths count = some_elements) {
    const auto outcomes = outcomes_on_ranks(size, [&](auto& comm) {
        std::vector<int> in(count(comm.rank()), comm.rank()), out(in.size(), -1);
        try {
            allfold::permute(comm, in, out, option(comm.rank()));
            allfold::barrier(comm);
        } catch (const allfold::error& failed) {
            expect(failed.code() == errc::peer_failed || out == std::vector(out.size(), -1) ||
                       is_rightful(out, comm.rank(), size, option),
                   "written");
            throw;
        }
    });
    require_codes(outcomes);
    return outcomes;
}

bool says(const std::vector<outcome>& all, errc code, const std::string& words) {
    for (const auto& each : all) {
        UNSCOPED_INFO(each.text);
        if (each.code == code && each.says(words)) return true;
    }
    return false;
}

}  // namespace

TEST_CASE("a list that is no permutation is refused on every rank, with what is wrong with it") {
    const auto twice = refused(3, [](int) { return destinations{1, 2, 1}; });
    const auto outside = refused(3, [](int) { return destinations{1, 3, 0}; });
    const auto below = refused(3, [](int) { return destinations{1, -1, 0}; });
    const auto shorter = refused(3, [](int) { return destinations{1, 0}; });
    const auto huge = refused(3, [](int) { return destinations(std::vector<long long>{1, 2, 1LL << 32}); });
    for (std::size_t r = 0; r < 3; ++r) {
        CHECK(says({twice[r]}, errc::bad_rank, "rank 1 is the destination of ranks 0 and 2"));
        CHECK(says({outside[r]}, errc::bad_rank, "the destination 3 of rank 1 is not in [0, 3)"));
        CHECK(says({below[r]}, errc::bad_rank, "the destination -1 of rank 1 is not in [0, 3)"));
        CHECK(says({shorter[r]}, errc::bad_argument, "the list of destinations has 2 entries for 3 ranks"));
        CHECK(says({huge[r]}, errc::bad_rank, "of rank 2 is not in [0, 3)"));
    }
    const auto none = outcomes_on_ranks(2, [](auto& comm) {
        int x = 0;
        allfold::permute(comm, x);
    });
    CHECK(says(none, errc::bad_argument, "no permutation given: pass shift{} or destinations{}"));
}

TEST_CASE("a list that is no permutation is refused where calls are remembered too") {
    const auto after = [](const auto& first, const destinations& list) {
        return outcomes_on_ranks(3, [&](auto& comm) {
            int x = comm.rank();
            for (int turn = 0; turn < 3; ++turn) allfold::permute(comm, x, first);
            allfold::permute(comm, x, list);
        });
    };
    const auto after_identity = [&](const destinations& list) { return after(destinations{0, 1, 2}, list); };
    CHECK(says(after_identity({0, 1, 0}), errc::bad_rank, "rank 0 is the destination of ranks 0 and 2"));
    CHECK(says(after_identity({0, 1, 2, 3}), errc::bad_argument, "has 4 entries for 3 ranks"));
    CHECK(says(after_identity({16, 0, 2}), errc::bad_rank, "the destination 16 of rank 0"));
    CHECK(says(after(shift{1}, {1, 0, 0}), errc::bad_rank, "rank 0 is the destination of ranks 1 and 2"));
}

TEST_CASE("different permutations are a mismatch that shows both, and nothing wrong is written") {
    for (const rank_lengths count : {one_element, many_elements}) {
        const auto lists =
            refused(3, [](int rank) { return rank == 1 ? destinations{1, 2, 0} : destinations{2, 0, 1}; }, count);
        CHECK(says(lists, errc::mismatch, "permutes to {1, 2, 0}"));
        CHECK(says(lists, errc::mismatch, "permutes to {2, 0, 1}"));
        const auto shifts = refused(2, [](int rank) { return shift{rank}; }, count);
        CHECK(says(shifts, errc::mismatch, "permutes to {0, 1}"));
        CHECK(says(shifts, errc::mismatch, "permutes to {1, 0}"));
    }
    const auto many = refused(20, [](int rank) { return shift{rank == 7 ? 1 : 2}; }, one_element);
    CHECK(says(many, errc::mismatch, "permutes by a list with hash"));
}

TEST_CASE("an operand that is not as long as its receiver expects is refused with both figures") {
    for (const rank_lengths count : {one_element, many_elements}) {
        const auto outcomes = outcomes_on_ranks(3, [&](auto& comm) {
            const std::size_t n = count(0);
            const std::vector<int> in(n + (comm.rank() == 1 ? 1 : 0));
            std::vector<int> out(n, -1);
            try {
                allfold::permute(comm, in, out, shift{1});
                allfold::barrier(comm);
            } catch (const allfold::error&) {
                expect(comm.rank() != 2 || out == std::vector(n, -1), "written");
                throw;
            }
        });
        require_codes(outcomes);
        const std::string n = std::to_string(count(0)), more = std::to_string(count(0) + 1);
        CHECK(says(outcomes, errc::mismatch,
                   "permute: rank 2 expects " + n + " elements from rank 1, which sends " + more));
    }
    const auto kept = outcomes_on_ranks(1, [](auto& comm) {
        const std::vector<int> in(3);
        std::vector<int> out(4);
        allfold::permute(comm, in, out, shift{1});
    });
    CHECK(says(kept, errc::mismatch, "the output has 4 elements, but 3 are needed"));
}
