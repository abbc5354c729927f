// SPDX-License-Identifier: BSL-1.0
#include "allfold/analysis/proved_first.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective.hpp"
#include "allfold/schedule/direct.hpp"
#include "allfold/schedule/ring.hpp"
#include "allfold/schedule/schedule_of.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"

using namespace test;
using allfold::errc;
using allfold::proved_first;
using allfold::sum;

namespace {

/// Which rank this thread is, and how many steps of other ranks threads have asked for, as a proof does. (How often a
/// rank asks for its own depends on when messages arrive.)
thread_local int own_rank = -1;
std::atomic<int> steps_of_others{0};

/// A user-defined all_reduce that is right for two ranks only: each rank folds what its neighbour sends.
struct one_neighbour {
    static constexpr const char* name = "one neighbour";
    static constexpr bool has_parameters = true;
    int distance = 1;

    class all_reduce : public allfold::schedule_of<one_neighbour> {
      public:
        static constexpr allfold::order keeps = allfold::order::any;
        static constexpr int scratch_slots = 0;
        static constexpr bool in_place = false;

        constexpr all_reduce(const allfold::setting& where, const one_neighbour& with) noexcept
            : schedule_of(where), distance_(with.distance) {}
        [[nodiscard]] static constexpr int blocks() noexcept { return 1; }
        [[nodiscard]] constexpr int rounds() const noexcept { return size() > 1 ? 1 : 0; }
        [[nodiscard]] allfold::step operator[](int) const {
            if (rank() != own_rank) ++steps_of_others;
            const auto whole = allfold::block_set::one(0);
            return {.to = allfold::peers::one((rank() + distance_) % size()),
                    .send = whole,
                    .from = allfold::peers::one((rank() + size() - distance_) % size()),
                    .receive = whole,
                    .how = rank() == 0 ? allfold::fold::right : allfold::fold::left};
        }

      private:
        int distance_;
    };
};

/// `direct` that counts as well.
struct counted_direct {
    static constexpr const char* name = "counted direct";

    struct permute : allfold::direct::permute {
        using allfold::direct::permute::permute;
        [[nodiscard]] allfold::step operator[](int round) const {
            if (rank() != own_rank) ++steps_of_others;
            return allfold::direct::permute::operator[](round);
        }
    };
};

/// Every rank must find the fault by itself, before it sends anything, and leave its data unchanged.
void check_refused(int size, std::size_t n, const std::string& of_proof) {
    std::vector<int> untouched(static_cast<std::size_t>(size));
    const auto outcomes = outcomes_on_ranks(size, [&](auto& comm) {
        std::vector<int> x(n, comm.rank());
        const std::vector<int> before = x;
        try {
            allfold::all_reduce(comm, x, sum(), one_neighbour(), proved_first());
        } catch (const allfold::error&) {
            untouched[static_cast<std::size_t>(comm.rank())] = x == before;
            throw;
        }
    });
    for (int r = 0; r < size; ++r) {
        const auto& each = outcomes[static_cast<std::size_t>(r)];
        INFO("rank " << r << ": " << each.text);
        CHECK(each.code == errc::bad_argument);
        CHECK(each.says("all_reduce: rank " + std::to_string(r) +
                        ": the schedule one neighbour is not proved: P = " + std::to_string(size)));
        CHECK(each.says(of_proof));
        CHECK(untouched[static_cast<std::size_t>(r)]);
    }
}

}  // namespace

TEST_CASE("a schedule that fails its proof is refused on every rank before anything is sent") {
    for (const std::size_t n : {std::size_t{1}, std::size_t{1000}, std::size_t{100000}}) {
        check_refused(3, n, "ends with");
        check_refused(5, n, "ends with");
    }
}

TEST_CASE("a schedule that is proved runs, its proof is remembered, and its parameters are told apart") {
    const auto run_once = [] {
        steps_of_others = 0;
        on_ranks(2, [](auto& comm) {
            own_rank = comm.rank();
            std::vector<int> x(100, comm.rank() + 1);
            allfold::all_reduce(comm, x, sum(), one_neighbour(), proved_first());
            expect(x == std::vector(100, 3), "wrong sum");
            allfold::all_reduce(comm, x, sum(), allfold::ring(), proved_first());
            auto op = allfold::all_reduce.start(comm, x, sum(), proved_first(), one_neighbour());
            op.wait();
            expect(x == std::vector(100, 12), "wrong sum of sums");
        });
        return steps_of_others.load();
    };
    const int with_proof = run_once(), without = run_once();
    CHECK(without < with_proof);
    CHECK(run_once() == without);

    const auto outcomes = outcomes_on_ranks(2, [](auto& comm) {
        int x = 1;
        allfold::all_reduce(comm, x, sum(), one_neighbour{2}, proved_first());  // every rank is its own neighbour
    });
    for (const auto& each : outcomes) CHECK(each.code == errc::bad_argument);
}

TEST_CASE("the proof of a permutation is remembered wherever its list is, and no other's") {
    const auto run_once = [](const std::vector<int>& list) {
        steps_of_others = 0;
        on_ranks(3, [&](auto& comm) {
            own_rank = comm.rank();
            int x = comm.rank(), y = -1;
            allfold::permute(comm, x, y, allfold::destinations(list), counted_direct(), proved_first());
            expect(list[static_cast<std::size_t>(y)] == comm.rank(), "wrong operand");
        });
        return steps_of_others.load();
    };
    const std::vector<int> list{1, 2, 0}, elsewhere = list, other{2, 0, 1};
    const int with_proof = run_once(list), without = run_once(elsewhere);
    CHECK(without < with_proof);
    CHECK(run_once(list) == without);
    CHECK(run_once(other) == with_proof);
}

TEST_CASE("what the library chooses is proved, with a root, without data and for a lone rank") {
    for (const int size : {1, 2, 3, 6})
        on_ranks(size, [](auto& comm) {
            std::vector<int> x(10, comm.rank());
            allfold::barrier(comm, proved_first());
            allfold::broadcast(comm, x, allfold::root{comm.size() - 1}, proved_first());
            expect(x[3] == comm.size() - 1, "broadcast");
            allfold::exclusive_scan(comm, x, sum(), proved_first());
            expect(x[3] == comm.rank() * (comm.size() - 1), "exclusive_scan");
        });
    SUCCEED();
}

TEST_CASE("a plan is refused as well where its schedule fails its proof") {
    CHECK_NOTHROW(allfold::all_reduce.plan(3, 4, sum(), allfold::ring(), proved_first()));
    CHECK_THROWS_WITH(allfold::all_reduce.plan(3, 4, sum(), one_neighbour(), proved_first()),
                      Catch::Matchers::ContainsSubstring("one neighbour is not proved: P = 3"));
}
