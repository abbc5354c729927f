// SPDX-License-Identifier: BSL-1.0
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/analysis/explore.hpp"
#include "allfold/analysis/explored_communicator.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/barrier.hpp"
#include "allfold/collective/broadcast.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/error.hpp"
#include "allfold/message.hpp"
#include "test/analysis/each_execution.hpp"
#include "test/support/catch.hpp"

/// @file
/// Deadlines pass, or they do not.

using allfold::deadline;
using allfold::explain;
using allfold::exploration;
using allfold::explore;
using allfold::explore_options;
using allfold::explored_communicator;
using allfold::sum;
using allfold::verdict;

namespace {

constexpr deadline soon{std::chrono::seconds(0)}, late{std::chrono::hours(1)};

explore_options only_in_vain() {
    explore_options options;
    options.deadlines = allfold::deadlines::in_vain;
    return options;
}

/// How far a rank gets: one letter for each step that does not time out.
template <class... Steps>
std::string progress_of(Steps... steps) {
    std::string done;
    try {
        ((steps(), done += '+'), ...);
    } catch (const allfold::error& e) {
        if (e.code() != allfold::errc::timeout) throw;
        done += '!';
    }
    return done;
}

/// What all ranks return, in each execution.
template <class Program>
std::set<std::vector<std::string>> outcomes(int size, Program program, const explore_options& limits = {}) {
    std::set<std::vector<std::string>> all;
    std::vector<std::string> now(static_cast<std::size_t>(size));
    explore_options options = limits;
    test::after_each_execution(options, [&] { all.insert(now); });
    const exploration found = explore(
        size,
        [&](explored_communicator& comm) {
            std::string& mine = now[static_cast<std::size_t>(comm.rank())];
            mine = "?";
            mine = program(comm);
        },
        options);
    INFO(explain(found));
    CHECK((found.ok() && found.complete()));
    return all;
}

}  // namespace

TEST_CASE("each rank is in time, or too late, or hears that another one was") {
    const auto program = [](explored_communicator& comm) { return progress_of([&] { allfold::barrier(comm, soon); }); };
    using all = std::set<std::vector<std::string>>;
    CHECK(outcomes(2, program) == all{{"+", "+"}, {"+", "!"}, {"!", "+"}, {"!", "!"}});
    CHECK(outcomes(2, program, only_in_vain()) == all{{"+", "+"}});
    CHECK(outcomes(3, program).size() == 8);
}

TEST_CASE("how long a deadline is makes no difference, and where none is given none passes") {
    for (const deadline& each : {soon, late}) {
        const auto program = [&](explored_communicator& comm) {
            if (comm.rank() != 0) return progress_of([&] { allfold::barrier(comm); }, [&] { allfold::barrier(comm); });
            return progress_of([&] { allfold::barrier(comm); }, [&] { allfold::barrier(comm, each); });
        };
        using all = std::set<std::vector<std::string>>;
        CHECK(outcomes(2, program) == all{{"++", "++"}, {"+!", "++"}, {"+!", "+!"}, {"+!", "!"}});
    }
}

TEST_CASE("operations in flight and messages have deadlines too") {
    const auto in_flight = [](explored_communicator& comm) {
        int x = 1;
        return progress_of([&] { allfold::all_reduce.start(comm, x, sum(), soon).wait(); },
                           [&] {
                               if (x != comm.size()) throw 42;
                           });
    };
    CHECK(outcomes(2, in_flight).size() == 4);
    const auto receives = [](explored_communicator& comm) {
        int x = 1;
        if (comm.rank() == 1) return progress_of([&] { allfold::send(comm, x, allfold::to{0}); });
        return progress_of([&] { allfold::receive(comm, x, allfold::from{1}, soon); });
    };
    using all = std::set<std::vector<std::string>>;
    CHECK(outcomes(2, receives) == all{{"+", "+"}, {"!", "+"}, {"!", "!"}});
    explore_options unreduced;
    unreduced.reduced = false;
    CHECK(outcomes(2, receives, unreduced) == outcomes(2, receives));
    CHECK(outcomes(2, in_flight, unreduced) == outcomes(2, in_flight));
}

TEST_CASE("a deadline that nobody catches is told, and replayed") {
    const auto program = [](explored_communicator& comm) {
        if (comm.rank() != 1) allfold::barrier(comm, late);
    };
    const exploration found = explore(3, program, only_in_vain());
    INFO(explain(found));
    REQUIRE(!found.ok());
    CHECK(found.first().what == verdict::timed_out);
    CHECK_THAT(found.first().text, Catch::Matchers::ContainsSubstring("barrier: the deadline of rank 0 has passed"));
    CHECK_THAT(allfold::history_of(found.first()),
               Catch::Matchers::ContainsSubstring("rank 0 is too late") &&
                   Catch::Matchers::ContainsSubstring("rank 2 hears that the deadline of another rank has passed"));
    const exploration again = allfold::replay(3, program, found.first().schedule, only_in_vain());
    REQUIRE(!again.ok());
    CHECK(again.first().text == found.first().text);
}

TEST_CASE("what the reduction leaves out of deadlines has the outcome of what it explores") {
    explore_options unreduced;
    unreduced.reduced = false;
    unreduced.executions = 20000;
    const auto compare = [&](int size, auto program) {
        CHECK(outcomes(size, program) == outcomes(size, program, unreduced));
    };
    compare(2, [](explored_communicator& comm) {
        int x = comm.rank();
        return progress_of([&] { allfold::broadcast(comm, x, soon); }, [&] { allfold::barrier(comm); });
    });
    compare(2, [](explored_communicator& comm) {
        int x = comm.rank(), y = 0;
        return progress_of([&] { allfold::exchange(comm, x, allfold::to{1 - x}, y, allfold::from{1 - x}, soon); },
                           [&] { allfold::all_reduce(comm, y, sum()); });
    });
    compare(3, [](explored_communicator& comm) {
        if (comm.rank() == 2) return progress_of([&] { allfold::barrier(comm); });
        return progress_of([&] { allfold::barrier(comm, soon); });
    });
}
