// SPDX-License-Identifier: BSL-1.0
#include "test/support/teams.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective.hpp"
#include "allfold/data/tensors.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/error.hpp"
#include "allfold/message.hpp"
#include "allfold/transport/mpi.hpp"
#include "allfold/transport/rank_list.hpp"
#include "allfold/transport/team.hpp"
#include "test/mpi/support/outcome.hpp"
#include "test/support/catch.hpp"
#include "test/support/watchdog.hpp"

using communicator = allfold::mpi::communicator;
using allfold::errc;
using allfold::rank_list;
using allfold::subset;
using allfold::sum;

namespace {

[[nodiscard]] rank_list all_of(const communicator& comm) { return rank_list::strided(0, comm.size()); }

/// Checks that the team and the parent fold as they should.
void check_sums(communicator& parent, communicator& some) {
    int x = 1, y = 1;
    allfold::all_reduce(some, x, sum());
    allfold::all_reduce(parent, y, sum());
    CHECK((x == some.size() && y == parent.size()));
}

}  // namespace

TEST_CASE("teams of processes fold among their members") {
    const test::watchdog watch("teams over MPI");
    communicator comm(MPI_COMM_WORLD);
    test::check_teams(comm);
    SUCCEED();
}

TEST_CASE("nothing of a team is delegated to MPI, which would ask all ranks of its parent") {
    const test::watchdog watch("delegation on teams over MPI");
    using allfold::delegate;
    communicator comm(MPI_COMM_WORLD);
    const auto turned = subset(comm, rank_list::strided(comm.size() - 1, comm.size(), -1));
    int x = comm.rank();
    allfold::inclusive_scan(*turned, x, sum(), allfold::order::any, delegate::always);
    int expected = 0;
    for (int r = comm.rank(); r < comm.size(); ++r) expected += r;
    CHECK(x == expected);
    const auto half = split(comm, allfold::color{comm.rank() % 2});
    int y = 1;
    allfold::all_reduce(*half, y, sum(), delegate::always);
    CHECK(y == half->size());
    CHECK_FALSE(allfold::all_reduce.plan(*half, 8, sum(), delegate::always).delegated());
}

TEST_CASE("nested splits of processes, with operations in flight on all levels") {
    const test::watchdog watch("nested splits over MPI");
    communicator comm(MPI_COMM_WORLD);
    for (unsigned seed = 1; seed <= 5; ++seed) test::check_nested_splits(comm, seed);
    SUCCEED();
}

TEST_CASE("polling an operation on the parent takes no message of a team that is being formed") {
    const test::watchdog watch("a team over MPI whose parent is polled");
    communicator comm(MPI_COMM_WORLD);
    int x = 1;
    auto op = allfold::all_reduce.prepare(comm, x, allfold::sum());
    // If no rank fails, it may be called without the barrier before it.
    const auto together = [&] { return comm.form_team(all_of(comm)); };
    allfold::team<communicator> all;
    if (comm.rank() == 0) {
        op.start();
        for (const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
             comm.size() > 1 && std::chrono::steady_clock::now() < end;)
            static_cast<void>(op.done());
        all = together();
    } else {
        all = together();
        op.start();
    }
    op.wait();
    CHECK(x == comm.size());
    CHECK(all->size() == comm.size());
}

TEST_CASE("a process that fails before it has joined a team releases the others") {
    const test::watchdog watch("a team over MPI that lacks a member");
    const auto mine = test::outcome_of([] {
        communicator comm(MPI_COMM_WORLD);
        if (comm.rank() == comm.size() - 1) throw std::runtime_error("boom");
        const auto all = subset(comm, all_of(comm));
        allfold::barrier(*all);
    });
    CHECK((mine.text == "boom" || mine.code == errc::peer_failed));
}

TEST_CASE("a process whose communicator fails before it has joined a team releases those that have") {
    const test::watchdog watch("a team over MPI that a process can no longer join");
    communicator parent(MPI_COMM_WORLD, allfold::mpi::duplicate, {.notice = std::chrono::milliseconds(5)});
    communicator other(MPI_COMM_WORLD);
    const auto before = subset(parent, all_of(parent));
    const int last = parent.size() - 1, there = 1;
    const auto mine = test::outcome_of([&] {
        if (parent.rank() == last) {
            for (int r = 0, here = 0; r < last; ++r) allfold::receive(other, here, allfold::from{r});
            allfold::abort(parent, "enough");
        } else {
            const auto all = subset(parent, all_of(parent));
            allfold::send(other, there, allfold::to{last});
            allfold::barrier(*all);
        }
    });
    INFO(mine.text);
    CHECK(mine.code == errc::peer_failed);
    check_sums(other, other);
}

TEST_CASE("teams are made without end, and old ones go on") {
    const test::watchdog watch("many teams over MPI");
    communicator comm(MPI_COMM_WORLD);
    const auto first = subset(comm, all_of(comm));
    for (int i = 0; i < 2500; ++i) {  // more than there are tags
        const auto pair = subset(comm, rank_list::strided(i % comm.size(), 1));
        const auto all = subset(comm, all_of(comm));
        if (i % 500 == 0 && pair) check_sums(*pair, *pair);
        if (i % 500 == 0) check_sums(*first, *all);
    }
    check_sums(comm, *first);
}

TEST_CASE("a team of processes outlives its parent") {
    const test::watchdog watch("a team over MPI without its parent");
    for (const bool last_of_all : {false, true}) {
        allfold::team<communicator> some;
        {
            communicator comm(MPI_COMM_WORLD);
            const auto all = subset(comm, all_of(comm));
            some = subset(comm, rank_list::strided(0, (comm.size() + 1) / 2, 2));
            check_sums(comm, *all);
        }
        if (!some) continue;
        check_sums(*some, *some);
        const bool leaves = last_of_all && some->rank() == 0 && some->size() > 1;
        const bool waits = last_of_all && some->rank() != 0;
        const auto mine = test::outcome_of([&] {
            if (leaves) some = {};
            if (waits) allfold::barrier(*some);
        });
        CHECK(mine.code == (waits ? std::optional(errc::peer_failed) : std::nullopt));
    }
}

TEST_CASE("a team of processes that has formed teams ends without waiting for any other rank") {
    const test::watchdog watch("the end of a team over MPI that has formed teams");
    communicator comm(MPI_COMM_WORLD);
    for (const bool inner_ends_first : {true, false}) {
        auto outer = subset(comm, all_of(comm));
        auto inner = subset(*outer, all_of(comm));
        check_sums(*outer, *inner);
        if (inner_ends_first) inner = {};
        if (comm.rank() == 0) outer = {};
        allfold::barrier(comm);  // rank 0 has left its team, the others have not
        outer = {};
        if (!inner_ends_first) check_sums(comm, *inner);
    }
}

TEST_CASE("teams of teams are made without end, although their parents end before them") {
    const test::watchdog watch("teams of teams over MPI");
    communicator comm(MPI_COMM_WORLD);
    const auto nested = [&] {
        auto outer = subset(comm, all_of(comm));
        auto middle = subset(*outer, all_of(comm));
        return subset(*middle, all_of(comm));
    };
    constexpr int more_than_communicators = 2100;  // that MPICH has
    for (int i = 0; i < (comm.size() == 2 ? more_than_communicators : 20); ++i) {
        const auto inner = nested();
        if (i % 100 == 0) check_sums(comm, *inner);
    }
}

TEST_CASE("threads of a process use a team each at once, which share a communicator of MPI's") {
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    if (level != MPI_THREAD_MULTIPLE) {
        SUCCEED("this MPI allows one thread at a time");
        return;
    }
    const test::watchdog watch("teams on several threads");
    communicator comm(MPI_COMM_WORLD);
    const int size = comm.size();
    std::array<int, 3> wrong{};
    const auto use = [&](std::size_t which) {
        return [&, which, all = subset(comm, all_of(comm))]() mutable {
            for (int turn = 0; turn < 200; ++turn) {
                std::vector<int> x(turn % 20 == 0 ? 5000 : 3, all->rank() + turn + static_cast<int>(which));
                allfold::all_reduce(*all, x, allfold::sum());
                const int sum = size * (size - 1) / 2 + size * (turn + static_cast<int>(which));
                wrong[which] += x != std::vector<int>(x.size(), sum) ? 1 : 0;
                if (turn % 50 == 49) {  // a team of the team, whose carrier other threads may poll as well
                    const auto nested = subset(*all, all_of(*all));
                    allfold::barrier(*nested);
                }
            }
            all = {};
        };
    };
    auto first = use(0), second = use(1), third = use(2);
    std::thread one(std::move(first)), other(std::move(second));
    third();
    one.join();
    other.join();
    CHECK(wrong == std::array{0, 0, 0});
}

TEST_CASE("processes that give different lists of members hear of it") {
    const test::watchdog watch("different lists over MPI");
    for (const bool is_short : {false, true}) {
        communicator comm(MPI_COMM_WORLD);
        const bool is_odd_one = comm.rank() == comm.size() - 1;
        const auto turned = rank_list::strided(comm.size() - 1, is_short ? 1 : comm.size(), -1);
        const auto mine = test::outcome_of([&] {
            const auto all = subset(comm, is_odd_one ? turned : all_of(comm));
            allfold::barrier(*all);
        });
        INFO(mine.text);
        if (comm.size() == 1) {
            CHECK(!mine.code);  // there is no other list
            continue;
        }
        if (!is_short) CHECK((mine.code == errc::mismatch || mine.code == errc::peer_failed));
        if (is_short && !is_odd_one) CHECK((mine.code == errc::mismatch || mine.code == errc::peer_failed));
        allfold::barrier(comm);  // in which the odd rank answers
        CHECK(test::on_any_rank(mine.code == errc::mismatch || is_short));
    }
}

TEST_CASE("a process that returns without joining a team, or leaves it, releases those that wait for it there") {
    const test::watchdog watch("a team over MPI that nobody joins");
    enum class way { never_joins, leaves, ends_its_parent };
    for (const way it : {way::never_joins, way::leaves, way::ends_its_parent}) {
        std::optional<communicator> comm(std::in_place, MPI_COMM_WORLD);
        const int size = comm->size();
        const bool is_odd_one = comm->rank() == size - 1 && size > 1;
        const auto before = subset(*comm, all_of(*comm));
        if (!(is_odd_one && it == way::ends_its_parent)) {
            auto all = it == way::never_joins && is_odd_one ? subset(*comm, {}) : subset(*comm, all_of(*comm));
            if (is_odd_one && all) all = {};
            const auto mine = test::outcome_of([&] {
                if (all) allfold::barrier(*all);
            });
            INFO(mine.text);
            if (size > 1 && !is_odd_one) CHECK(mine.code == errc::peer_failed);
        }
        if (it == way::ends_its_parent) comm.reset();
        check_sums(*before, comm ? *comm : *before);
    }
}

TEST_CASE("a process that has left a team, or never joins it, answers for it while it waits on another communicator") {
    const test::watchdog watch("a process that waits elsewhere than those who wait for it in a team");
    communicator parent(MPI_COMM_WORLD, allfold::mpi::duplicate, {.notice = std::chrono::milliseconds(5)});
    communicator other(MPI_COMM_WORLD, allfold::mpi::duplicate, {.notice = std::chrono::milliseconds(5)});
    const int size = parent.size();
    const bool is_odd_one = parent.rank() == size - 1 && size > 1;
    for (const bool leaves : {true, false}) {
        auto all = subset(parent, is_odd_one && !leaves ? rank_list{} : all_of(parent));
        if (is_odd_one) all = {};
        const auto mine = test::outcome_of([&] {
            if (all) allfold::barrier(*all);
        });
        INFO(mine.text);
        CHECK((mine.code == errc::peer_failed) == (size > 1 && !is_odd_one));
        all = {};
        check_sums(other, other);
    }
}

TEST_CASE("a process answers for a communicator while it waits on another one or in a team") {
    const test::watchdog watch("a mismatch that is found by a process that waits elsewhere");
    enum class way { goes_on_elsewhere, goes_on_in_a_team, was_a_thread_that_has_ended };
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    for (const way it : {way::goes_on_elsewhere, way::goes_on_in_a_team, way::was_a_thread_that_has_ended}) {
        if (it == way::was_a_thread_that_has_ended && level != MPI_THREAD_MULTIPLE) continue;
        communicator parent(MPI_COMM_WORLD, allfold::mpi::duplicate, {.notice = std::chrono::milliseconds(5)});
        communicator other(MPI_COMM_WORLD);
        auto team = subset(parent, all_of(parent));
        const bool is_odd_one = parent.rank() == parent.size() - 1 && parent.size() > 2;
        const bool has_team = it == way::goes_on_in_a_team;
        std::array<int, 3> x{};
        test::outcome mine;
        const auto call = [&] {
            mine = test::outcome_of([&] {
                // Nobody but the odd one notices in the broadcast itself.
                allfold::broadcast(parent, x, allfold::root{is_odd_one ? 1 : 0});
                if (has_team) allfold::barrier(*team);
            });
        };
        it == way::was_a_thread_that_has_ended && !is_odd_one ? std::thread(call).join() : call();
        INFO(mine.text);
        if (is_odd_one) CHECK(mine.code == errc::mismatch);
        if (!has_team) check_sums(other, other);
        if (has_team && !is_odd_one) CHECK((mine.code == errc::peer_failed) == (parent.size() > 2));
    }
}

TEST_CASE("a process answers for a team that it has left while it makes or ends a communicator, or leaves a team") {
    const test::watchdog watch("a process that is busy with other communicators");
    enum class way { makes_other, ends_other, ends_parent, leaves_outer };
    const allfold::mpi::tuning numbers{.notice = std::chrono::milliseconds(5), .patience = std::chrono::hours(1)};
    for (const way it : {way::makes_other, way::ends_other, way::ends_parent, way::leaves_outer}) {
        std::optional<communicator> parent(std::in_place, MPI_COMM_WORLD, allfold::mpi::duplicate, numbers), other;
        if (it == way::ends_other) other.emplace(MPI_COMM_WORLD);
        auto outer = subset(*parent, all_of(*parent)), inner = allfold::team<communicator>();
        if (it == way::ends_parent || it == way::leaves_outer) inner = subset(*outer, all_of(*outer));
        if (it == way::leaves_outer) inner = {};
        auto& left = it == way::ends_parent ? inner : outer;
        const bool is_alone = parent->size() == 1, is_odd_one = parent->rank() == parent->size() - 1 && !is_alone;
        if (is_odd_one) left = {};
        const auto mine = test::outcome_of([&] {
            if (left) allfold::barrier(*left);
        });
        INFO(static_cast<int>(it) << ": " << mine.text);
        CHECK((mine.code == errc::peer_failed) == !(is_odd_one || is_alone));
        if (it == way::makes_other) other.emplace(MPI_COMM_WORLD);
        other.reset();
        if (it == way::ends_parent) parent.reset();
    }
}

TEST_CASE("a failure in a team of processes ends that one, and neither its parent nor others") {
    const test::watchdog watch("a failure in a team over MPI");
    communicator comm(MPI_COMM_WORLD, allfold::mpi::duplicate,
                      {.patience = std::chrono::hours(1)});  // no rank gives up waiting
    const auto other = subset(comm, all_of(comm));
    for (const std::size_t length : {std::size_t{3}, std::size_t{20000}, std::size_t{1000000}}) {
        const auto mine = test::outcome_of([&] {
            const auto all = subset(comm, all_of(comm));
            std::vector<float> x(length, 1);
            allfold::all_reduce(*all, x, sum());
            if (all->rank() == all->size() - 1) throw std::runtime_error("boom");
            allfold::all_reduce(*all, x, sum());
            allfold::all_reduce(*all, x, sum());
        });
        CHECK((mine.text == "boom" || mine.code == errc::peer_failed));
        check_sums(comm, *other);
    }
    const auto mine = test::outcome_of([&] {
        const auto all = subset(comm, all_of(comm));
        if (const auto nested = subset(*all, all_of(*all)); all->rank() < all->size() - 1) return;
        throw std::runtime_error("boom");  // while the others leave the team, which has had one of its own
    });
    CHECK(mine.text == (comm.rank() == comm.size() - 1 ? "boom" : ""));
    check_sums(comm, *other);
}

TEST_CASE("a member that fails lets go of what it was sent in a hundred calls, whether it has made them or not") {
    const test::watchdog watch("a failure in a team over MPI with many calls in flight");
    communicator comm(MPI_COMM_WORLD, allfold::mpi::duplicate,
                      {.patience = std::chrono::hours(1)});  // no rank gives up waiting
    for (const bool has_made_them : {true, false}) {
        std::vector<std::vector<float>> x(100, std::vector<float>(60000, 1));
        const auto mine = test::outcome_of([&] {
            const auto all = subset(comm, all_of(comm));
            const bool fails = all->rank() == all->size() - 1;
            std::vector<allfold::operation> calls;
            const auto start = [&] {
                for (auto& each : x) calls.push_back(allfold::all_reduce.start(*all, each, sum()));
            };
            if (!fails) start();
            allfold::barrier(comm);
            if (fails && has_made_them) start();
            if (fails) throw std::runtime_error("boom");
            allfold::wait_all(calls);
        });
        INFO(mine.text);
        const bool may_be_done = has_made_them && comm.rank() != comm.size() - 1;
        CHECK((mine.text == "boom" || mine.code == errc::peer_failed || (may_be_done && mine.text.empty())));
    }
    check_sums(comm, comm);
}

TEST_CASE("what fails in flight while processes make their first team releases the others") {
    const test::watchdog watch("a failure while a team over MPI is made");
    enum class way { subset, nested, split };
    for (const way it : {way::subset, way::nested, way::split}) {
        const auto mine = test::outcome_of([it] {
            communicator parent(MPI_COMM_WORLD);
            const auto outer = it == way::nested ? subset(parent, all_of(parent)) : allfold::team<communicator>();
            communicator& comm = outer ? *outer : parent;
            const bool fails = comm.rank() == comm.size() - 1;
            const auto op = allfold::associative([fails](int a, int b) {
                if (fails) throw std::runtime_error("boom");
                return a + b;
            });
            int x = 1;
            if (comm.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
            auto in_flight = allfold::all_reduce.start(comm, x, op);
            const auto all = it == way::split ? allfold::split(comm, allfold::color{0}) : subset(comm, all_of(comm));
            in_flight.wait();
            if (comm.size() == 1) throw std::runtime_error("boom");
            allfold::barrier(comm);  // a rank that is already done learns of it here
        });
        INFO(mine.text);
        CHECK((mine.text == "boom" || mine.code == errc::peer_failed));
    }
}

TEST_CASE(
    "a process leaves a team although another one has left, or will, that it has sent something which MPI keeps") {
    const test::watchdog watch("a team over MPI that is left with something on its way");
    communicator comm(MPI_COMM_WORLD);
    enum class way { leaves_first, has_had_teams, is_asked_first };
    for (const way it : {way::leaves_first, way::has_had_teams, way::is_asked_first}) {
        auto all = subset(comm, all_of(comm));
        if (it == way::has_had_teams) static_cast<void>(subset(*all, all_of(*all)));
        if (comm.rank() < comm.size() - 1 || comm.size() == 1) {
            std::vector<std::vector<float>> pieces(100, std::vector<float>(512, 1));  // many short parts: one long copy
            allfold::tensors<float> list;
            for (auto& each : pieces) list.add(each);
            allfold::broadcast(*all, list);
        } else if (it == way::is_asked_first) {  // it is asked whether it has left, and has not
            int y = 0;
            auto never = allfold::receive.start(*all, y, allfold::from{0}, allfold::tag{9});
            const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(250);
            while (std::chrono::steady_clock::now() < end) static_cast<void>(never.done());
            CHECK(never.cancel());
        }
        all = {};
        int x = 1;
        allfold::all_reduce(comm, x, sum());
        CHECK(x == comm.size());
    }
}

TEST_CASE(
    "a process that lends something to one that has left their team hears of it, and does not wait until it is read") {
    const test::watchdog watch("a loan to a process that has left a team over MPI");
    communicator comm(MPI_COMM_WORLD, allfold::mpi::duplicate,
                      {.notice = std::chrono::milliseconds(5), .patience = std::chrono::hours(1)});
    const bool leaves = comm.rank() == 0 && comm.size() > 1;
    for (const bool one_aborts : {false, true}) {  // of which the others hear before they have asked the one that left
        const bool aborts = one_aborts && comm.rank() == 1;
        std::vector<int> x(100000, 1);
        auto all = subset(comm, all_of(comm));
        if (leaves) all = {};
        const auto mine = test::outcome_of([&] {
            if (aborts) allfold::abort(*all, "on purpose");
            if (!leaves) allfold::reduce(*all, x, sum());
        });
        INFO(mine.text);
        CHECK((!mine.code || (mine.code == errc::peer_failed && !leaves)));
        all = {};
        check_sums(comm, comm);  // in which the first rank answers
        CHECK(test::on_any_rank(mine.code == errc::peer_failed) == (comm.size() > 1));
    }
}
