// SPDX-License-Identifier: BSL-1.0
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "allfold/analysis/explore.hpp"
#include "allfold/analysis/explored_communicator.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/error.hpp"
#include "allfold/message.hpp"
#include "test/support/catch.hpp"

/// @file
/// Programs that cancel receives and sends: both outcomes of a cancel are explored.

using allfold::explain;
using allfold::exploration;
using allfold::explore;
using allfold::explored_communicator;
using allfold::from;
using allfold::tag;
using allfold::to;
using allfold::verdict;

TEST_CASE("whether a cancel succeeds depends on what has come: both are explored") {
    const auto cancels = [](bool at_once) {
        return explore(2, [at_once](explored_communicator& comm) {
            if (comm.rank() == 1) {
                if (!at_once) allfold::send(comm, 6, to{0}, tag{1});
                allfold::send(comm, 5, to{0});
                return 0;
            }
            int x = 0, y = 0;
            auto one = allfold::receive.start(comm, x, from{1});
            if (!at_once) allfold::receive(comm, y, from{1}, tag{1});
            const bool is_cancelled = one.cancel();
            if (is_cancelled) allfold::receive(comm, x, from{1});  // the cancelled receive took no message
            one.wait();
            return 10 * static_cast<int>(is_cancelled) + x;
        });
    };
    for (const bool at_once : {true, false}) {
        const exploration found = cancels(at_once);
        INFO(explain(found));
        REQUIRE((found.complete() && found.findings().size() == 1));
        CHECK(found.first().what == verdict::different_values);
        CHECK_THAT(found.first().text,
                   Catch::Matchers::ContainsSubstring("15") && Catch::Matchers::ContainsSubstring(" 5"));
    }
}
TEST_CASE("whether the cancel of a send succeeds depends on whether there has been room for it: both are explored") {
    using allfold::mode;
    for (const mode how : {mode::standard, mode::synchronous, mode::buffered}) {
        const auto program = [how](explored_communicator& comm) {
            int x = 5, y = 6;
            if (comm.rank() == 1) {
                allfold::receive(comm, x, from{0});
                if (x == 5) allfold::receive(comm, y, from{0});
                return x;
            }
            allfold::attach_buffer(comm, 100);
            auto first = allfold::send.start(comm, x, to{1}, how), second = allfold::send.start(comm, y, to{1}, how);
            const bool is_cancelled = first.cancel();
            first.wait();
            second.wait();
            allfold::detach_buffer(comm);
            return static_cast<int>(is_cancelled);
        };
        const exploration found = explore(2, program);
        INFO(explain(found));
        REQUIRE(found.complete());
        if (how == mode::buffered) {  // complete at once
            CHECK(found.ok());
            continue;
        }
        REQUIRE((found.findings().size() == 1 && found.first().what == verdict::different_values));
        const exploration again = allfold::replay(2, program, found.first().schedule);
        REQUIRE(!again.ok());
        CHECK(again.first().text == found.first().text);
        CHECK_THAT(history_of(again.first()), Catch::Matchers::ContainsSubstring("rank 0 has no room for its send"));
        for (const char* none : {"2:C", "2:C0.", "2:C0.1", "2:C00.1.", "2:C0.1.C"})
            CHECK_THROWS_AS(allfold::replay(2, program, none), allfold::error);
    }
}

TEST_CASE("a send that is cancelled in time is never received, and one that is not cancelled has left in the end") {
    const auto executions_of = [](bool cancels) {
        return explore(2, [cancels](explored_communicator& comm) {
            int x = 7;
            if (comm.rank() == 1) return static_cast<void>(allfold::receive(comm, x, from{0}));
            auto sends = allfold::send.start(comm, x, to{1}, allfold::mode::synchronous);
            if (cancels) static_cast<void>(sends.cancel());
            sends.wait();
        });
    };
    const exploration sound = executions_of(false), lost = executions_of(true);
    INFO(explain(sound) << explain(lost));
    CHECK((sound.ok() && sound.executions() == 1 && sound.redundant() == 0));
    REQUIRE(lost.findings().size() == 1);
    CHECK(lost.first().what == verdict::deadlock);
}

TEST_CASE("a send for which there is no room, and that no rank cancels after all, is no fault") {
    const exploration found = explore(3, [](explored_communicator& comm) {
        int x = 7, first = 0;
        if (comm.rank() != 0) {
            allfold::send(comm, comm.rank(), to{0});
            if (comm.rank() == 1) allfold::receive(comm, x, from{0});
            return;
        }
        auto sends = allfold::send.start(comm, x, to{1}, allfold::mode::synchronous);
        allfold::receive(comm, first, from{allfold::any});
        const bool is_cancelled = first == 2 && sends.cancel();
        allfold::receive(comm, first, from{allfold::any});
        is_cancelled ? allfold::send(comm, x, to{1}) : sends.wait();
    });
    INFO(explain(found));
    CHECK((found.ok() && found.complete() && found.redundant() != 0));
}

TEST_CASE("behind a send that is cancelled in time, standard sends that wait deadlock") {
    const exploration found = explore(2, [](explored_communicator& comm) {
        int x = 7, y = 0;
        if (comm.rank() == 1) {
            allfold::send(comm, x, to{0});
            return static_cast<void>(allfold::receive(comm, y, from{0}));
        }
        auto sends = allfold::send.start(comm, x, to{1}, allfold::mode::synchronous);
        const bool is_cancelled = sends.cancel();
        if (is_cancelled) allfold::send(comm, x, to{1});
        allfold::receive(comm, y, from{1});
        if (!is_cancelled) sends.wait();
    });
    INFO(explain(found));
    REQUIRE((found.complete() && found.findings().size() == 1));
    CHECK(found.first().what == verdict::deadlock_unless_held);
}

TEST_CASE("each of several sends is cancelled in time or not, and only those that may be cancelled cost executions") {
    const auto program = [](explored_communicator& comm) {
        std::vector<int> x(6);
        if (comm.rank() != 0) {
            for (int i = 0; i < 4; ++i) allfold::receive(comm, x[0], from{0});
            return;
        }
        std::vector<allfold::operation> all;
        for (int i = 0; i < 6; ++i) all.push_back(allfold::send.start(comm, x[static_cast<std::size_t>(i)], to{1}));
        for (const std::size_t i : {1U, 4U}) static_cast<void>(all[i].cancel());
        for (auto& each : all) each.wait();
    };
    allfold::explore_options held;
    held.sends = allfold::standard_sends::held;
    const exploration found = explore(2, program, held);
    INFO(explain(found));
    REQUIRE((found.complete() && found.findings().size() == 1));
    CHECK(found.first().alike == 2);  // which message is never received
    held.executions = 1;
    exploration part = explore(2, program, held);
    std::uint64_t redundant = part.redundant();
    int parts = 1;
    for (; !part.frontier().empty(); ++parts) {
        held.frontier = part.frontier();
        part = explore(2, program, held);
        redundant = part.redundant();
    }
    CHECK((part.executions() == found.executions() && redundant == found.redundant()));
    CHECK(static_cast<std::uint64_t>(parts) == found.executions());
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
