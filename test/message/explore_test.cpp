// SPDX-License-Identifier: BSL-1.0
#include "allfold/analysis/explore.hpp"

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/analysis/explored_communicator.hpp"
#include "allfold/analysis/without_fault.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/barrier.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/message.hpp"
#include "test/support/catch.hpp"

/// @file
/// Programs that send messages, in every order in which these may arrive.

using allfold::explain;
using allfold::exploration;
using allfold::explore;
using allfold::explored_communicator;
using allfold::from;
using allfold::tag;
using allfold::to;
using allfold::verdict;

namespace {

int factorial(int n) { return n < 2 ? 1 : n * factorial(n - 1); }

/// What comes to rank 0 from all others, each of which sends its number so many times.
template <class Take>
int take_all(explored_communicator& comm, int each, Take take) {
    int result = 0;
    for (int i = 0; i < each; ++i)
        if (comm.rank() != 0) allfold::send(comm, comm.rank(), to{0});
    for (int i = 0; comm.rank() == 0 && i < each * (comm.size() - 1); ++i) {
        int x = 0;
        allfold::receive(comm, x, from{allfold::any});
        result = take(result, x);
    }
    return result;
}
int add(int all, int x) { return all + x; }
int append(int all, int x) { return 10 * all + x; }

}  // namespace

TEST_CASE("messages from n ranks to one that takes any arrive in n! orders") {
    for (int senders = 1; senders <= 5; ++senders) {
        const exploration found =
            explore(senders + 1, [](explored_communicator& comm) { return take_all(comm, 1, add); });
        INFO(explain(found));
        CHECK((found.ok() && found.complete()));
        CHECK(found.executions() == static_cast<std::size_t>(factorial(senders)));
    }
    const exploration twice = explore(3, [](explored_communicator& comm) { return take_all(comm, 2, add); });
    INFO(explain(twice));
    CHECK((twice.ok() && twice.executions() == 6));  // two of each: 4! / (2! 2!)
}

TEST_CASE("messages whose sources are named arrive in one order") {
    const exploration found = explore(4, [](explored_communicator& comm) {
        std::vector<int> got;
        if (comm.rank() != 0) allfold::send(comm, comm.rank(), to{0});
        for (int r = 1; comm.rank() == 0 && r < comm.size(); ++r) {
            int x = 0;
            allfold::receive(comm, x, from{r});
            got.push_back(x);
        }
        return got;
    });
    INFO(explain(found));
    CHECK((found.ok() && found.complete()));
}

TEST_CASE("a result that depends on the order of arrival is shown") {
    const auto program = [](explored_communicator& comm) { return take_all(comm, 1, append); };
    const exploration found = explore(3, program);
    INFO(explain(found));
    REQUIRE(!found.ok());
    CHECK(found.first().what == verdict::different_values);
    CHECK(!allfold::replay(3, program, found.first().schedule).ok());
}

TEST_CASE("two ranks that send to each other first deadlock unless messages are held for them") {
    const auto meet = [](allfold::mode how) {
        return explore(2, [how](explored_communicator& comm) {
            int x = 0;
            allfold::send(comm, comm.rank(), to{1 - comm.rank()}, how);
            allfold::receive(comm, x, from{1 - comm.rank()});
            return x;
        });
    };
    const exploration stuck = meet(allfold::mode::synchronous), held = meet(allfold::mode::standard);
    INFO(explain(stuck) << explain(held));
    CHECK((!stuck.ok() && stuck.first().what == verdict::deadlock));
    CHECK(held.ok());
    CHECK(explore(2, [](explored_communicator& comm) {
              int x = comm.rank();
              allfold::exchange(comm, x, to{1 - comm.rank()}, from{1 - comm.rank()});
              return x;
          }).ok());
}

TEST_CASE("a receive from any rank may take what was meant for a later one, unless tags tell them apart") {
    const auto phases = [](bool has_tags) {
        return explore(3, [has_tags](explored_communicator& comm) {
            std::array<int, 2> sums{};
            for (int phase = 0; phase < 2; ++phase) {
                const tag under{has_tags ? phase : 0};
                if (comm.rank() != 0) allfold::send(comm, 10 * phase + 1, to{0}, under);
                for (int i = 1; comm.rank() == 0 && i < comm.size(); ++i) {
                    int x = 0;
                    allfold::receive(comm, x, from{allfold::any}, under);
                    sums[static_cast<std::size_t>(phase)] += x;
                }
            }
            return sums;
        });
    };
    const exploration stolen = phases(false), told_apart = phases(true);
    INFO(explain(stolen) << explain(told_apart));
    CHECK((!stolen.ok() && stolen.first().what == verdict::different_values));
    CHECK((told_apart.ok() && told_apart.complete()));
}

TEST_CASE("a message that nobody receives is found, beside collectives that all make") {
    const exploration found = explore(2, [](explored_communicator& comm) {
        if (comm.rank() == 1) allfold::send(comm, 5, to{0});
        allfold::barrier(comm);
        return allfold::all_reduce(comm, 1, allfold::sum());
    });
    INFO(explain(found));
    CHECK((!found.ok() && found.first().what == verdict::never_received));
}

TEST_CASE("a receive that may be cancelled, and a wait for any of two, are explored") {
    const exploration found = explore(3, [](explored_communicator& comm) {
        if (comm.rank() != 0) {
            allfold::send(comm, comm.rank(), to{0});
            return 0;
        }
        std::array<int, 2> x{};
        std::array both{allfold::receive.start(comm, x[0], from{1}), allfold::receive.start(comm, x[1], from{2})};
        return static_cast<int>(allfold::wait_any(both));
    });
    INFO(explain(found));
    CHECK((!found.ok() && found.first().what == verdict::different_values));
}

TEST_CASE("a test of a user's own says that a program has no fault, or which one") {
    const auto adds = [](auto& comm) { return take_all(comm, 1, add); };
    const auto appends = [](auto& comm) { return take_all(comm, 1, append); };
    CHECK_THAT(explore(4, adds), allfold::without_fault());
    const allfold::without_fault matcher;
    CHECK_FALSE(matcher.match(explore(3, appends)));
    CHECK_THAT(matcher.toString(), Catch::Matchers::ContainsSubstring("different values: rank 0 returns 21, but 12"));
    allfold::explore_options few;
    few.executions = 2;
    CHECK_FALSE(matcher.match(explore(4, adds, few)));  // there are more, and one of them may have a fault
}
