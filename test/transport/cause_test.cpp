// SPDX-License-Identifier: BSL-1.0
#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/barrier.hpp"
#include "allfold/collective/subset.hpp"
#include "allfold/message/receive.hpp"
#include "allfold/schedule/recursive_doubling.hpp"
#include "allfold/transport/hierarchy.hpp"
#include "allfold/transport/team.hpp"
#include "allfold/transport/thread.hpp"
#include "test/support/catch.hpp"
#include "test/support/ranks.hpp"

// If a rank fails, `run` throws the cause, and the other ranks are told the cause.

using namespace test;
using allfold::operation;
using allfold::sum;

namespace {

struct boom : std::runtime_error {
    boom() : std::runtime_error("boom") {}
};

auto fragile_sum(bool fails) {
    return allfold::commutative([fails](int a, int b) {
        if (fails) throw boom();
        return a + b;
    });
}

/// An operator throws while its rank waits in another call, which then throws.
void fail_in_the_background(int culprit, auto& comm, auto... algorithm) {
    std::vector<int> x(1000, 1);
    operation a = allfold::all_reduce.start(comm, x, fragile_sum(comm.rank() == culprit), algorithm...);
    for (;;) allfold::barrier(comm);
}

/// How each rank ends if an operation is destroyed because an exception leaves its rank.
template <class Thrown>
std::vector<outcome> outcomes_of_unwinding(Thrown thrown) {
    return outcomes_on_ranks(3, [&](auto& comm) {
        std::vector<int> x(10, 1);
        operation a = allfold::all_reduce.start(comm, x, sum());
        if (comm.rank() == 1) throw thrown;
        a.wait();
        allfold::barrier(comm);
    });
}

}  // namespace

TEST_CASE("run throws what an operator has thrown while its rank waited for something else") {
    for (int turn = 0; turn < 20; ++turn)
        CHECK_THROWS_AS(on_ranks(3, [](auto& comm) { fail_in_the_background(1, comm, allfold::recursive_doubling()); }),
                        boom);
}

TEST_CASE("run throws the cause although its rank has thrown something else after it, or nothing") {
    const auto catching = [](auto& comm, auto then) {
        try {
            fail_in_the_background(1, comm, allfold::recursive_doubling());
        } catch (const std::exception&) {
            if (comm.rank() != 1) throw;
            then(comm);
        }
    };
    CHECK_THROWS_AS(on_ranks(2, [&](auto& comm) { catching(comm, [](auto& c) { allfold::barrier(c); }); }), boom);
    CHECK_THROWS_AS(on_ranks(2, [&](auto& comm) { catching(comm, [](auto&) {}); }), boom);
    CHECK_THROWS_AS(on_ranks(2, [&](auto& comm) { catching(comm, [](auto&) { throw 42; }); }), int);
}

TEST_CASE("the run of a hierarchy throws the cause as well") {
    const auto body = [](auto& comm) { fail_in_the_background(0, comm); };  // by default, the first rank does the fold
    CHECK_THROWS_AS(on_ranks(2, [&](auto& across) { allfold::run(across, 2, body); }), boom);
}

TEST_CASE("ranks are told why another one was left by an exception, also when an operation was destroyed by it") {
    for (int turn = 0; turn < 20; ++turn) {
        const auto outcomes = outcomes_of_unwinding(boom());
        for (const int r : {0, 2}) {
            INFO(outcomes[static_cast<std::size_t>(r)].text);
            CHECK(outcomes[static_cast<std::size_t>(r)].says("rank 1 failed: boom"));
        }
        CHECK(outcomes[1].text == "boom");
    }
}

TEST_CASE("run throws the exception by which an operation was destroyed") {
    CHECK_THROWS_AS(on_ranks(2,
                             [](auto& comm) {
                                 int x = 1;
                                 operation a = allfold::all_reduce.start(comm, x, sum());
                                 if (comm.rank() == 1) throw boom();
                                 allfold::barrier(comm);
                                 allfold::barrier(comm);
                             }),
                    boom);
}

TEST_CASE("ranks are told what has destroyed an operation or a team, not what its rank was handling then") {
    const auto as_handled = [](auto body) {
        try {
            throw std::runtime_error("harmless");
        } catch (const std::runtime_error&) {
            body();
        }
    };
    std::string of_another;
    auto outcomes = outcomes_on_ranks(2, [&](auto& comm) {
        std::vector<int> x(10, 1), y(10, 1);
        if (comm.rank() == 1) {  // does not wait in a collective: it might be told of a mismatch instead
            allfold::receive(comm, x, allfold::from{0});
            return;
        }
        operation other = allfold::all_reduce.start(comm, y, sum());
        try {
            as_handled([&] {
                const operation lost = allfold::all_reduce.start(comm, x, sum());
                throw boom();
            });
        } catch (const boom&) {
            of_another = outcome_of([&] { other.wait(); }).text;
            throw;
        }
    });
    CHECK(outcomes[1].says("rank 0 failed: boom"));
    CHECK(of_another == "all_reduce: abandoned with its communicator");

    outcomes = outcomes_on_ranks(2, [&](auto& comm) {
        auto both = allfold::split(comm, allfold::color{0}, comm.rank());
        if (comm.rank() == 1) return allfold::barrier(*both);
        as_handled([&] {
            const auto lost = std::move(both);
            throw boom();
        });
    });
    INFO(outcomes[1].text);
    CHECK(outcomes[1].code == allfold::errc::peer_failed);
    CHECK_FALSE(outcomes[1].says("harmless"));
}
