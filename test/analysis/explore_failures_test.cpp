// SPDX-License-Identifier: BSL-1.0
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/operator.hpp"
#include "allfold/analysis/explore.hpp"
#include "allfold/analysis/explored_communicator.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/barrier.hpp"
#include "allfold/collective/subset.hpp"
#include "allfold/error.hpp"
#include "allfold/message.hpp"
#include "allfold/transport/thread.hpp"
#include "test/analysis/each_execution.hpp"
#include "test/support/catch.hpp"

/// @file
/// Ranks fail, and the others are told of it, as they are on threads.

using allfold::errc;
using allfold::explain;
using allfold::exploration;
using allfold::explore;
using allfold::explore_options;
using allfold::explored_communicator;
using allfold::from;
using allfold::to;
using allfold::verdict;
using test::boom;

namespace {

explore_options told(bool reduced = true) {
    explore_options options;
    options.failures = allfold::failures::are_told;
    options.reduced = reduced;
    return options;
}

template <class... Steps>
std::string progress_of(Steps... steps) {
    return test::progress_of(errc::peer_failed, steps...);
}
using outcome = std::vector<std::string>;

template <class Program>
std::set<outcome> explored_outcomes(int size, Program program, const explore_options& how) {
    std::set<outcome> seen;
    outcome now(static_cast<std::size_t>(size));
    explore_options options = how;
    test::after_each_execution(options, [&] { seen.insert(now); });
    const exploration found = explore(
        size, [&](explored_communicator& comm) { now[static_cast<std::size_t>(comm.rank())] = program(comm); },
        options);
    INFO(explain(found));
    CHECK((found.ok() && found.complete()));
    return seen;
}
/// Checks that ranks do what the search without reduction finds, and on threads nothing else.
template <class Program>
std::set<outcome> check_outcomes(int size, Program program) {
    const auto seen = explored_outcomes(size, program, told());
    CHECK(seen == explored_outcomes(size, program, told(false)));
    for (int turn = 0; turn < 20; ++turn) {
        outcome now(static_cast<std::size_t>(size));
        allfold::run(size, [&](auto& comm) { now[static_cast<std::size_t>(comm.rank())] = program(comm); });
        INFO(now[0] << ' ' << now[1] << ' ' << now[2]);
        CHECK(seen.contains(now));
    }
    return seen;
}
/// A sum that fails on rank 1.
auto fragile_sum(auto& comm) {
    return allfold::commutative([rank = comm.rank()](int a, int b) {
        if (rank == 1) throw boom();
        return a + b;
    });
}

}  // namespace

TEST_CASE("ranks that catch the failure of another one, or their own, have no fault if they are told") {
    const auto fails = [](auto& comm) {
        if (comm.rank() == 1) throw boom();
    };
    const auto aborts = check_outcomes(3, [](auto& comm) {
        const auto abort = [&] {
            if (comm.rank() == 1) allfold::abort(comm, "enough");
        };
        return progress_of([&] { allfold::barrier(comm); }, abort, [&] { allfold::barrier(comm); });
    });
    CHECK((aborts.contains({"++!", "+!", "++!"}) && aborts.contains({"!", "+!", "++!"})));
    const auto returns = check_outcomes(3, [&](auto& comm) {  // it has told nobody, but others wait for it in vain
        return progress_of([&] { fails(comm); }, [&] { allfold::barrier(comm); });
    });
    CHECK(returns == std::set<outcome>{{"+!", "x", "+!"}});
    const auto sends = check_outcomes(3, [&](auto& comm) {
        int x = 0;
        if (comm.rank() == 0)
            return progress_of([&] { allfold::receive(comm, x, from{allfold::any}); },
                               [&] { allfold::receive(comm, x, from{allfold::any}); });
        return progress_of([&] { fails(comm); }, [&] { allfold::send(comm, 1, to{0}); });
    });
    CHECK(sends == std::set<outcome>{{"+!", "x", "++"}});
    const auto folds = explored_outcomes(
        3,
        [](auto& comm) {
            int x = 1;
            return progress_of([&] { allfold::all_reduce(comm, x, fragile_sum(comm)); },
                               [&] { allfold::barrier(comm); });
        },
        told());
    CHECK(folds.contains({"!", "x", "!"}));
}

TEST_CASE("a failure that leaves its rank is reported, and not what others throw for it, in teams either") {
    std::set<std::string> heard;
    const auto fails = [&](explored_communicator& comm) {
        const auto pair = allfold::subset(comm, allfold::rank_list{0, 2});
        if (comm.rank() == 1) throw boom();
        for (int i = 0; i < 2; ++i) allfold::barrier(*pair);
        const auto hear = [&](auto step) {
            try {
                step();
            } catch (const allfold::error& e) {
                heard.insert(e.what());
                throw;
            }
        };
        int x = 0;
        try {
            hear([&] { allfold::receive(*pair, x, from{1 - pair->rank()}); });
        } catch (const allfold::error&) {
            hear([&] { allfold::barrier(comm); });
        }
    };
    const exploration found = explore(3, fails, told());
    INFO(explain(found));
    REQUIRE(found.findings().size() == 1);
    CHECK((found.complete() && found.first().what == verdict::failed));
    CHECK(found.first().text == "rank 1: boom");
    CHECK(heard == std::set<std::string>{"rank 1 failed: boom"});
    const auto again = allfold::replay(3, fails, found.first().schedule, told());
    CHECK((again.findings().size() == 1 && again.first().text == found.first().text));
    CHECK_THAT(history_of(found.first()),
               Catch::Matchers::ContainsSubstring("rank 0 learns that another rank has failed"));
    const exploration uncaught = explore(
        2,
        [](explored_communicator& comm) {  // by the others alone
            try {
                if (comm.rank() == 1) allfold::abort(comm, "enough");
            } catch (const allfold::error&) {
                return;
            }
            allfold::barrier(comm);
        },
        told());
    INFO(explain(uncaught));
    REQUIRE(uncaught.findings().size() == 1);
    CHECK_THAT(uncaught.first().text,
               Catch::Matchers::ContainsSubstring("rank 0: rank 1 failed: abort: called by rank"));
}

TEST_CASE(
    "unless ranks are told of failures, to catch one is a fault, and so is to wait for a rank that has returned") {
    const exploration caught = explore(2, [](explored_communicator& comm) {
        int x = 1;
        static_cast<void>(progress_of([&] { allfold::all_reduce(comm, x, fragile_sum(comm)); }));
    });
    INFO(explain(caught));
    REQUIRE(!caught.ok());
    CHECK((caught.first().what == verdict::failed && caught.first().text == "rank 1: boom: all_reduce (its 1st call)"));
    const exploration returned = explore(2, [](explored_communicator& comm) {
        static_cast<void>(progress_of([&] {
            if (comm.rank() == 0) allfold::barrier(comm);
        }));
    });
    REQUIRE(!returned.ok());
    CHECK(returned.first().what == verdict::deadlock);
}
