// SPDX-License-Identifier: BSL-1.0
#include "allfold/transport/team.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <thread>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective.hpp"
#include "allfold/error.hpp"
#include "allfold/message/abort.hpp"
#include "allfold/transport/rank_list.hpp"
#include "allfold/transport/thread.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"
#include "test/support/teams.hpp"
#include "test/support/watchdog.hpp"

/// @file
/// Teams of threads.

using namespace test;
using allfold::color;
using allfold::errc;
using allfold::rank_list;
using allfold::subset;
using allfold::sum;
using communicator = allfold::thread_communicator;

TEST_CASE("ranks of a team are translated into those of another one, and others are rejected") {
    on_ranks(4, [](auto& comm) {
        const auto even = allfold::subset(comm, allfold::rank_list({0, 2})), all = allfold::subset(comm, {3, 2, 1, 0});
        if (!even) return;
        expect(even.translate(1, all) == 1 && all.translate(0, even) == -1, "translate");
        for (const int none : {-1, 2}) {
            const outcome rejected = outcome_of([&] { static_cast<void>(even.translate(none, all)); });
            expect(rejected.code == allfold::errc::bad_rank, "bad rank");
            expect(rejected.says("translate: rank " + std::to_string(none) + " of a team of 2 ranks"), rejected.text);
        }
    });
    SUCCEED();
}

TEST_CASE("a list of ranks finds its ranks, listed or strided") {
    const rank_list listed{4, 0, 2}, strided = rank_list::strided(4, 3, -2), alike{4, 2, 0}, none;
    CHECK((listed.size() == 3 && listed[0] == 4 && listed.find(2) == 2 && listed.find(3) == -1));
    CHECK((strided.size() == 3 && strided[1] == 2 && strided.find(0) == 2 && strided.find(6) == -1));
    CHECK((strided.find(1) == -1 && strided.find(-2) == -1 && !strided.contains(3)));
    CHECK((strided == alike && alike == strided && !(strided == listed) && strided.has_same_ranks(listed)));
    CHECK((none.empty() && !none.contains(0) && !none.overlaps(listed) && !(none == listed)));
    CHECK((listed.overlaps({1, 0}) && !listed.overlaps({1, 3})));
    CHECK(rank_list::strided(3, 1, 0).contains(3));
    CHECK_THROWS_AS(rank_list::strided(0, 2, 0), allfold::error);
    CHECK_THROWS_AS(rank_list::strided(0, -1), allfold::error);
}

TEST_CASE("a list of ranks, and a team, that has been moved from is empty") {
    for (rank_list moved : {rank_list{4, 0, 2}, rank_list::strided(4, 3, -2)}) {
        const rank_list before = moved, first = std::move(moved);
        CHECK((first == before && moved.empty() && moved.find(4) == -1));
        moved = before;
        rank_list second;
        second = std::move(moved);
        CHECK((second == before && moved.empty() && moved.find(0) == -1));
    }
    on_ranks(2, [](communicator& comm) {
        auto from = allfold::subset(comm, {1, 0});
        const auto to = std::move(from);
        expect(to.members().size() == 2 && !from && from.members().empty(), "moved");
    });
}

TEST_CASE("teams of threads fold among their members") {
    for (const int P : {1, 2, 3, 5, 8}) on_ranks(P, [](communicator& comm) { check_teams(comm); });
    SUCCEED();
}

TEST_CASE("nested splits, with operations in flight on all levels") {
    for (unsigned seed = 1; seed <= 20; ++seed) {
        INFO("seed " << seed);
        for (const int P : {2, 4, 7})
            on_ranks(
                P, [&](communicator& comm) { check_nested_splits(comm, seed); },
                seed % 2 ? impatient : allfold::thread_tuning{});
    }
    SUCCEED();
}

TEST_CASE("a team lives on when its parent has ended") {
    const watchdog watch("a team without its parent");
    allfold::thread_world world(2);
    std::array<allfold::team<communicator>, 2> both;
    std::array<int, 2> x{1, 2};
    const auto rank = [&](int r) {
        {
            communicator comm = world.communicator(r);
            both[static_cast<std::size_t>(r)] = subset(comm, {1, 0});
        }
        allfold::all_reduce(*both[static_cast<std::size_t>(r)], x[static_cast<std::size_t>(r)], sum());
        both[static_cast<std::size_t>(r)] = {};
    };
    std::thread other(rank, 1);
    rank(0);
    other.join();
    CHECK((x[0] == 3 && x[1] == 3));
}

TEST_CASE("lists that are none are refused before anything is done") {
    on_ranks(3, [](communicator& comm) {
        const auto refused = [&](const rank_list& members, const char* why) {
            try {
                static_cast<void>(subset(comm, members));
            } catch (const allfold::error& e) {
                return e.code() == errc::bad_rank && std::string(e.what()).find(why) != std::string::npos;
            }
            return false;
        };
        expect(refused({0, 3}, "rank 3 is not in [0, 3)"), "too high");
        expect(refused({-1}, "rank -1 is not in [0, 3)"), "negative");
        expect(refused({0, 1, 0}, "rank 0 is in the list twice"), "twice");
        expect(refused(rank_list::strided(1, 2, 2), "rank 3 is not in [0, 3)"), "strided");
        int x = 1;
        allfold::all_reduce(*subset(comm, {0, 1, 2}), x, sum());
        expect(x == 3, "the communicator is as it was");
    });
    on_ranks(3, [](communicator& comm) {
        std::string told;
        try {
            static_cast<void>(allfold::split(comm, color{comm.rank() == 1 ? -2 : 0}));
        } catch (const allfold::error& e) {
            if (e.code() == errc::bad_argument) told = e.what();
        }
        expect(told.find("rank 1 passes negative color -2") != std::string::npos, "a negative color: " + told);
        int x = 1;
        allfold::all_reduce(comm, x, sum());
        expect(x == 3, "the communicator is as it was");
    });
    SUCCEED();
}

TEST_CASE("members with different lists get a mismatch, and no rank hangs") {
    const auto outcomes = outcomes_on_ranks(3, [](communicator& comm) {
        const auto own = subset(comm, comm.rank() == 1 ? rank_list{1, 2, 0} : rank_list{0, 1, 2});
        int x = 1;
        allfold::all_reduce(*own, x, sum());
    });
    int disagree = 0;
    for (const auto& each : outcomes) {
        CHECK(!each.succeeded());
        disagree += each.code == errc::mismatch ? 1 : 0;
    }
    CHECK(disagree > 0);
}

TEST_CASE("members that give different lists hear of it although they go on with the parent") {
    for (const int late : {0, 1}) {
        std::atomic<bool> has_begun = false;
        on_ranks(2, [&](communicator& comm) {
            while (comm.rank() == late && !has_begun) std::this_thread::yield();
            const outcome own = outcome_of([&] {
                const auto both = subset(comm, comm.rank() == 0 ? rank_list{0, 1} : rank_list{1, 0});
                has_begun = true;
                allfold::barrier(*both);
            });
            expect(own.code == (comm.rank() == late ? errc::mismatch : errc::peer_failed), own.text);
            allfold::barrier(comm);
        });
    }
    SUCCEED();
}

TEST_CASE("ranks that no int can hold are none") {
    CHECK_THROWS_WITH(rank_list::strided(0, 5, 1 << 30), Catch::Contains("5 ranks with stride 1073741824"));
    CHECK_THROWS_AS(rank_list::strided(-2, 3, -(1 << 30)), allfold::error);
    const auto one = rank_list::strided(7, 1, 1 << 30);
    CHECK((one.find(7) == 0 && one.find(-2147483647) == -1 &&
           one.among(rank_list::strided(0, 8, 1 << 28))[0] == 7 << 28));
}

TEST_CASE("a rank whose own list it is not in is told so, and the others, whoever comes first") {
    for (const int late : {0, 1, 2}) {
        const auto outcomes = outcomes_on_ranks(3, [late](communicator& comm) {
            if (comm.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(5));
            const auto own = subset(comm, comm.rank() == 1 ? rank_list{2} : rank_list{0, 1});
            int x = 1;
            if (own) allfold::all_reduce(*own, x, sum());
            allfold::barrier(comm);
        });
        int disagree = 0;
        for (const outcome& each : outcomes) {
            INFO(each.text);
            CHECK(!each.succeeded());
            disagree += each.code == errc::mismatch ? 1 : 0;
            if (each.code == errc::mismatch)
                CHECK(each.says("that includes rank 1, but rank 1 passes one that does not"));
        }
        CHECK(disagree > 0);
    }
}

TEST_CASE("teams are formed although any number of lanes has been opened since the one before") {
    on_ranks(2, [](communicator& comm) {
        const auto before = subset(comm, {0, 1});
        for (int i = 0; i < 8; ++i)
            static_cast<void>(comm.open({}, 1u << 27));  // three quarters of the numbers of lanes
        for (int turn = 0; turn < 3; ++turn) {
            const auto own = subset(comm, {1, 0});
            int x = 1;
            allfold::all_reduce(*own, x, sum());
            expect(x == 2, "a team");
        }
    });
    SUCCEED();
}

TEST_CASE("a member that never joins releases the others") {
    for (const bool throws : {false, true}) {
        const auto outcomes = outcomes_on_ranks(3, [&](communicator& comm) {
            if (comm.rank() == 2) {
                if (throws) throw std::runtime_error("enough");
                return;
            }
            const auto own = subset(comm, {2, 1, 0});
            int x = 1;
            allfold::all_reduce(*own, x, sum());
        });
        CHECK((!outcomes[0].succeeded() && !outcomes[1].succeeded()));
    }
}

TEST_CASE("a member that can never join, since the parent has failed, releases the others at once") {
    enum class way { member_aborts, other_aborts, deadline_passes };
    for (const way how : {way::member_aborts, way::other_aborts, way::deadline_passes}) {
        std::atomic<int> joined = 0, ended = 0;
        const auto outcomes = outcomes_on_ranks(4, [&](communicator& comm) {
            if (comm.rank() < 2) {
                const outcome own = outcome_of([&] {
                    const auto all = subset(comm, {0, 1, 2});
                    ++joined;
                    allfold::barrier(*all);
                });
                ++ended;
                expect(own.says("rank 2 of the parent"), own.text);
                return;
            }
            while (joined < 2) std::this_thread::yield();
            if (comm.rank() == (how == way::other_aborts ? 3 : 2))
                static_cast<void>(outcome_of([&] {
                    if (how != way::deadline_passes) allfold::abort(comm, "enough");
                    allfold::barrier(comm, allfold::deadline{std::chrono::milliseconds(1)});
                }));
            while (ended < 2) std::this_thread::yield();
        });
        for (const outcome& each : outcomes) CHECK(each.text == "");
    }
}

TEST_CASE("an operator forms no teams of the communicator on which it folds") {
    std::atomic<int> refusals = 0;
    on_ranks(2, [&](communicator& comm) {
        const auto op = allfold::commutative([&](int a, int b) {
            const outcome listed = outcome_of([&] { static_cast<void>(subset(comm, {0, 1})); });
            const outcome colored = outcome_of([&] { static_cast<void>(allfold::split(comm, color{0})); });
            if (listed.says("subset") && colored.says("split") && listed.says("inside the operator") &&
                colored.code == errc::bad_argument)
                ++refusals;
            return a + b;
        });
        int x = 1, y = 1;
        allfold::all_reduce(comm, x, op);
        allfold::all_reduce(comm, y, sum());
        expect(x == 2 && y == 2, "the communicator is as it was");
    });
    CHECK(refusals > 0);
}

TEST_CASE("what failed in a team is what run throws, also where others come first with what they have heard of it") {
    struct slow {
        explicit slow(int ms) : duration(ms) {}
        slow(const slow&) = delete;
        slow& operator=(const slow&) = delete;
        ~slow() { std::this_thread::sleep_for(duration); }
        std::chrono::milliseconds duration;
    };
    for (int turn = 0; turn < 5; ++turn) {
        try {
            allfold::run(4, [](communicator& comm) {
                const slow ended_after_the_team(comm.rank() == 3 ? 20 : 0);
                const auto half = allfold::split(comm, color{comm.rank() % 2});
                int x = 1;
                for (int i = 0; i < 3; ++i) allfold::all_reduce(*half, x, sum());
                if (comm.rank() == 3) throw std::runtime_error("rank 3 has had enough");
                allfold::all_reduce(*half, x, sum());
                allfold::all_reduce(comm, x, sum());
            });
            FAIL("nothing was thrown");
        } catch (const std::exception& e) {
            CHECK(std::string(e.what()) == "rank 3 has had enough");
        }
    }
}
