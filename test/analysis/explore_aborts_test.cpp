// SPDX-License-Identifier: BSL-1.0
#include <array>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <limits>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/operator.hpp"
#include "allfold/analysis/explore.hpp"
#include "allfold/analysis/explored_communicator.hpp"
#include "allfold/analysis/here.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/barrier.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/message.hpp"
#include "test/support/catch.hpp"

/// @file
/// Programs that abort, or wait for something outside: on a rank that is explored, and elsewhere.

using allfold::all_reduce;
using allfold::explain;
using allfold::explore;
using allfold::explored_communicator;
using allfold::here;
using allfold::replay;
using allfold::sum;
using allfold::verdict;
using vector = std::vector<int>;

namespace {

/// Rank 0 aborts if the message of rank 2 is the first to arrive.
void abort_if_late(explored_communicator& comm) {
    if (comm.rank() != 0) allfold::send(comm, comm.rank(), allfold::to{0});
    for (int i = 0, x = 0; comm.rank() == 0 && i < 2; ++i) {
        allfold::receive(comm, x, allfold::from{allfold::any});
        if (x == 2 && i == 0) std::abort();
    }
    allfold::barrier(comm);
}

}  // namespace

TEST_CASE("a rank that aborts has failed, whatever it holds, and the others go on as far as they can") {
    struct sigaction before{}, after{};
    REQUIRE(::sigaction(SIGABRT, nullptr, &before) == 0);
    const auto found = explore(3, abort_if_late);
    INFO(explain(found));
    REQUIRE(found.findings().size() == 1);
    CHECK((found.first().what == verdict::failed && !found.complete() && found.first().schedule == "3:1"));
    CHECK(found.first().text ==
          "rank 0: it aborts (a failed assertion, std::terminate, std::abort); its latest call: "
          "receive from any rank (its 1st call)");
    CHECK_THAT(history_of(found.first()), Catch::Matchers::ContainsSubstring("rank 0 fails: it aborts"));
    const auto in_flight = explore(2, [](explored_communicator& comm) {
        vector x(100, 1), y(100, 1), z(1);
        auto sum_of_all = all_reduce.start(comm, x, sum());
        auto got = allfold::receive.start(comm, z, allfold::from{1 - comm.rank()});
        all_reduce(here(comm), y, allfold::commutative([&](int a, int b) {  // while it makes progress on all of them
                       if (comm.rank() == 1) std::abort();
                       return a + b;
                   }));
        allfold::send(comm, 1, allfold::to{1 - comm.rank()});
    });
    INFO(explain(in_flight));
    REQUIRE(in_flight.findings().size() == 1);
    CHECK(in_flight.first().what == verdict::failed);
    CHECK_THAT(in_flight.first().text, Catch::Matchers::ContainsSubstring("rank 1: it aborts") &&
                                           Catch::Matchers::ContainsSubstring(
                                               "its latest call: all_reduce (its 3rd call, explore_aborts_test.cpp:"));
    CHECK((::sigaction(SIGABRT, nullptr, &after) == 0 && after.sa_handler == before.sa_handler));
}

TEST_CASE("explorations on several threads whose ranks abort do not disturb each other") {
    const auto explained = [] { return explain(explore(3, abort_if_late)); };
    std::array<std::string, 2> found;
    std::thread other([&] { found[1] = explained(); });
    found[0] = explained();
    other.join();
    CHECK_THAT(found[0], Catch::Matchers::ContainsSubstring("rank 0: it aborts"));
    CHECK(found[1] == found[0]);
}

TEST_CASE("an exception that leaves a noexcept function of a rank is told, unless it only ends the execution") {
    const auto found = explore(2, [](explored_communicator& comm) {
        const vector small(comm.rank() == 0 ? 3U : 1U);
        const auto add = [&](int a, int b) noexcept { return a + b + small.at(2); };
        int x = 1;
        all_reduce(comm, x, allfold::commutative(add));
    });
    INFO(explain(found));
    REQUIRE(found.findings().size() == 1);
    CHECK(found.first().what == verdict::failed);
    CHECK_THAT(found.first().text,
               Catch::Matchers::ContainsSubstring("rank 1: it aborts") &&
                   Catch::Matchers::ContainsSubstring(", while it handles an exception: ") &&
                   Catch::Matchers::ContainsSubstring("; its latest call: all_reduce (its 1st call)"));
    const auto released = explore(2, [](explored_communicator& comm) {
        const auto wait = [&]() noexcept {
            int x = 0;
            allfold::receive(comm, x, allfold::from{1 - comm.rank()});
        };
        if (comm.rank() == 0) wait();
    });
    INFO(explain(released));
    REQUIRE(released.findings().size() == 1);
    CHECK((released.first().what == verdict::deadlock && std::uncaught_exceptions() == 0 && !std::current_exception()));
}

#if !defined(ALLFOLD_FIBRES_UNDER_TSAN)  // the thread sanitizer starts no threads after a fork
namespace {

/// What a process says that explores, and how it ends.
struct ended_process {
    std::string said;
    int status = 0;
};
template <class Act>
ended_process end_of_process(Act act) {
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
        std::signal(SIGABRT, SIG_DFL);
        ::dup2(ends[1], STDERR_FILENO);
        act();
        ::_exit(0);
    }
    ::close(ends[1]);
    ended_process end;
    char letter = 0;
    while (::read(ends[0], &letter, 1) == 1) end.said += letter;
    ::close(ends[0]);
    ::waitpid(child, &end.status, 0);
    return end;
}
}  // namespace

TEST_CASE("a rank that waits for something outside ends the process, which says where") {
    const auto end = end_of_process([] {
        allfold::explore_options options;
        options.step_seconds = 0.1;
        static_cast<void>(explore(
            2,
            [](explored_communicator& comm) {
                allfold::barrier(comm);
                while (comm.rank() == 1) ::pause();
            },
            options));
    });
    INFO(end.said);
    CHECK((WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGABRT));
    CHECK_THAT(end.said,
               Catch::Matchers::ContainsSubstring("rank 1 has not come back for 0.1 s") &&
                   Catch::Matchers::ContainsSubstring("Its latest call: barrier (its 1st call). Schedule: 2:0"));
}

TEST_CASE("a rank may take any time for a step if the limit is longer than a clock can count") {
    for (const double seconds : {1e10, std::numeric_limits<double>::infinity()}) {
        const auto end = end_of_process([seconds] {
            allfold::explore_options options;
            options.step_seconds = seconds;
            static_cast<void>(explore(1, [](explored_communicator&) { ::usleep(20'000); }, options));
        });
        INFO(seconds << " s: " << end.said);
        CHECK((WIFEXITED(end.status) && WEXITSTATUS(end.status) == 0));
    }
}

TEST_CASE("who aborts outside of an explored rank ends the process, and so does a rank that is replayed") {
    const auto aborts_in_watch = [] {
        allfold::explore_options options;
        options.watch = [](const allfold::exploring&) -> bool { std::abort(); };
        static_cast<void>(explore(2, [](explored_communicator& comm) { allfold::barrier(comm); }, options));
    };
    for (const auto& end : {end_of_process(aborts_in_watch),
                            end_of_process([] { static_cast<void>(replay(1, [](auto&) { std::abort(); }, "1:")); })})
        CHECK((WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGABRT));
}
#endif
