// SPDX-License-Identifier: BSL-1.0
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "allfold/analysis/explore.hpp"
#include "allfold/analysis/explored_communicator.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/message.hpp"
#include "test/support/catch.hpp"
#include "test/support/sanitized.hpp"

/// @file
/// Ranks that test again and again while nothing else can happen: in which order they do so matters only where one of
/// them does something else.

using allfold::explain;
using allfold::exploration;
using allfold::explore;
using allfold::explore_options;
using allfold::explored_communicator;
using allfold::from;
using allfold::to;
using allfold::verdict;

namespace {

int next_of(const explored_communicator& comm) { return (comm.rank() + 1) % comm.size(); }

/// Each rank tests a receive from anyone a few times, probes, and sends: in an order of its own.
class polling_program {
  public:
    polling_program(std::mt19937& dice, int size) : logs_(static_cast<std::size_t>(size)) {
        for (int r = 0; r < size; ++r) {
            auto& actions = actions_.emplace_back();
            const auto number = [&](unsigned most) { return 1 + static_cast<int>(dice() % most); };
            actions.push_back({dice() % 2 == 0 ? does::tests : does::probes, number(4)});
            for (const std::size_t more = 1 + dice() % 3; actions.size() <= more;)
                actions.push_back(
                    {std::array{does::tests, does::sends, does::sends, does::waits}[dice() % 4], number(3)});
        }
    }

    void operator()(explored_communicator& comm) {
        std::string& log = logs_[static_cast<std::size_t>(comm.rank())];
        log.clear();
        const int x = comm.rank();
        int y = 0, z = 0;
        bool is_open = true;
        auto posted = allfold::receive.start(comm, y, from{allfold::any});
        const auto note = [&](const char* how, int value) { log += how + std::to_string(value); };
        std::vector<allfold::operation> sends;
        for (const auto& [what, number] : actions_[static_cast<std::size_t>(comm.rank())])
            for (int i = 0; i < number; ++i) {
                if (what == does::sends && i == 0)
                    sends.push_back(
                        allfold::send.start(comm, x, to{(x + 1 + number % (comm.size() - 1)) % comm.size()}));
                if (what == does::probes) {
                    auto m = allfold::try_probe(comm, from{allfold::any});
                    log += '.';
                    if (!m) continue;
                    allfold::receive(*m, z);
                    note("p", z);
                    break;
                }
                if (what == does::sends || !is_open) break;
                if (what == does::waits) posted.wait();
                is_open = what == does::tests && !posted.done();
                is_open ? static_cast<void>(log += '-') : note("+", y);
            }
        if (is_open && !posted.cancel()) {
            posted.wait();
            note("c", y);
        }
        for (auto& each : sends) each.wait();
    }

    /// What ranks have seen in the latest execution.
    [[nodiscard]] std::string outcome() const {
        std::string all;
        for (const std::string& each : logs_) all += each + '|';
        return all;
    }

  private:
    enum class does : std::uint8_t { tests, probes, sends, waits };
    std::vector<std::vector<std::pair<does, int>>> actions_;
    std::vector<std::string> logs_;
};

struct outcomes {
    std::set<std::string> seen;
    std::set<verdict> faults;
    exploration found;
};

outcomes outcomes_of(int size, polling_program program, bool reduced, int tests) {
    outcomes all;
    explore_options options;
    options.reduced = reduced;
    options.executions = 400;
    options.sends = allfold::standard_sends::held;
    options.tests = tests;
    options.most_tests = 8;
    std::uint64_t before = 0;
    options.watch = [&](const allfold::exploring& now) {
        if (std::exchange(before, now.executions) != now.executions) all.seen.insert(program.outcome());
        return true;
    };
    all.found = explore(size, std::ref(program), options);
    for (const allfold::finding& each : all.found.findings()) all.faults.insert(each.what);
    return all;
}

}  // namespace

TEST_CASE("what explore leaves out has the outcome of what it explores, also if ranks test in vain") {
    const std::uint32_t seed = std::random_device()();
    INFO("seed " << seed);
    std::mt19937 dice(seed);
    int compared = 0;
    std::uint64_t executions = 0, without = 0;
    for (int i = 0; compared < test::fewer_if_sanitized(30, 6); ++i) {
        const int size = 2 + i % 2, tests = 1 + i / 2 % 2;
        const polling_program program(dice, size);
        const outcomes all = outcomes_of(size, program, false, tests);
        if (!all.found.complete()) continue;
        const outcomes some = outcomes_of(size, program, true, tests);
        ++compared;
        executions += some.found.executions();
        without += all.found.executions();
        INFO("program " << i << ": " << explain(some.found) << "without reduction: " << explain(all.found));
        REQUIRE(some.found.complete());
        REQUIRE(some.seen == all.seen);
        REQUIRE(some.faults == all.faults);
    }
    INFO(executions << " executions, without reduction " << without);
    CHECK(executions < without / 2);
}

TEST_CASE("ranks that all test for ever make no progress in one execution") {
    for (const int size : {1, 2, 3}) {
        const auto found = explore(size, [](explored_communicator& comm) {
            int x = 0;
            auto one = allfold::receive.start(comm, x, from{next_of(comm)});
            while (!one.done()) {
            }
        });
        INFO(explain(found));
        REQUIRE((found.complete() && found.executions() == 1 && !found.ok()));
        CHECK(found.first().what == verdict::no_progress);
    }
}

TEST_CASE("ranks that test while they compute are explored in few executions, however often they do so") {
    for (const int tests : {5, 50}) {
        const auto found = explore(2, [tests](explored_communicator& comm) {
            const int x = 1;
            int y = 0;
            auto one = allfold::receive.start(comm, y, from{next_of(comm)});
            for (int i = 0; i < tests; ++i) static_cast<void>(one.done());
            auto two = allfold::send.start(comm, x, to{next_of(comm)});
            one.wait();
            two.wait();
        });
        INFO(explain(found));
        CHECK((found.complete() && found.ok() && found.executions() < 100));
    }
    const auto found = explore(3, [](explored_communicator& comm) {  // two test until the third one is done
        const int x = 1;
        int y = 0;
        auto one = allfold::receive.start(comm, y, from{comm.rank() == 2 ? 0 : 2});
        for (int i = 0; comm.rank() != 2 ? !one.done() : i < 3 && !one.done(); ++i) {
        }
        if (comm.rank() == 0) allfold::send(comm, x, to{2});
        if (comm.rank() != 2) return;
        allfold::send(comm, x, to{0});
        allfold::send(comm, x, to{1});
        one.wait();
    });
    INFO(explain(found));
    CHECK((found.complete() && found.ok() && found.executions() < 200));
}
