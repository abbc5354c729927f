// SPDX-License-Identifier: BSL-1.0
#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/barrier.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/engine/progress_thread.hpp"
#include "allfold/message.hpp"
#include "allfold/schedule/ring.hpp"
#include "allfold/transport/mpi.hpp"
#include "test/collective/sync_checks.hpp"
#include "test/collective/together_checks.hpp"
#include "test/support/catch.hpp"
#include "test/support/watchdog.hpp"

using allfold::operation;
using allfold::persistent;
using allfold::ring;
using allfold::sum;
using test::watchdog;

/// Short ones are sent with their envelopes, long ones in separate pieces.
constexpr std::size_t lengths[] = {3, 300, 60000};

TEST_CASE("over MPI too, operations on two communicators may be waited for in opposite orders") {
    const watchdog watch("two communicators over MPI");
    allfold::mpi::communicator a(MPI_COMM_WORLD), b(MPI_COMM_WORLD);
    for (const std::size_t n : lengths) {
        std::vector<int> x(n, 1), y(n, 2);
        operation first = allfold::all_reduce.start(a, x, sum(), ring());
        operation second = allfold::all_reduce.start(b, y, sum(), ring());
        if (a.rank() % 2) std::swap(first, second);
        first.wait();
        second.wait();
        CHECK(x == std::vector(n, a.size()));
        CHECK(y == std::vector(n, 2 * a.size()));
    }
}

TEST_CASE("over MPI too, prepared operations may be started in another order on every rank") {
    const watchdog watch("prepared operations over MPI");
    // Few tags, so that several lanes share each.
    allfold::mpi::communicator comm(MPI_COMM_WORLD, allfold::mpi::duplicate, {.tags = 2});
    for (const std::size_t n : lengths) {
        std::vector<std::vector<int>> x(4, std::vector<int>(n));
        std::vector<persistent> prepared;
        for (auto& each : x) prepared.push_back(allfold::all_reduce.prepare(comm, each, sum(), ring()));
        for (std::size_t turn = 0; turn < 50; ++turn) {
            for (std::size_t i = 0; i < x.size(); ++i) x[i].assign(n, static_cast<int>(i + turn));
            const auto shift = static_cast<std::size_t>(comm.rank()) + turn;
            for (std::size_t i = 0; i < x.size(); ++i) prepared[(i + shift) % x.size()].start();
            if (turn % 7 == 0) allfold::barrier(comm);
            for (std::size_t i = 0; i < x.size(); ++i) {
                const std::size_t each = (3 * i + shift) % x.size();
                prepared[each].wait();
                REQUIRE(x[each] == std::vector(n, comm.size() * static_cast<int>(each + turn)));
            }
        }
    }
}

TEST_CASE("over MPI too, collectives together give what they give one after another, whenever they begin and end") {
    const watchdog watch("composites over MPI");
    allfold::mpi::communicator comm(MPI_COMM_WORLD);
    for (unsigned seed = 0; seed < 60; seed += 10) test::check_together(comm, seed);
    test::check_sync_modes(comm);
    SUCCEED();
}

TEST_CASE("making or ending a communicator makes progress on operations of others") {
    const watchdog watch("a communicator that comes and goes over MPI", std::chrono::seconds(30));
    allfold::mpi::communicator comm(MPI_COMM_WORLD);
    std::optional<allfold::mpi::communicator> other;
    for (int turn = 0; turn < 3; ++turn) {
        std::vector<int> x(1'000'000, 1);
        operation op = allfold::all_reduce.start(comm, x, sum(), ring());
        const auto come_and_go = [&] { other ? other.reset() : static_cast<void>(other.emplace(MPI_COMM_WORLD)); };
        if (comm.rank() % 2 == 0) come_and_go();
        op.wait();
        if (comm.rank() % 2 != 0) come_and_go();
        CHECK(x == std::vector(x.size(), comm.size()));
    }
}

TEST_CASE("over MPI too, a progress thread pushes operations on, and runs blocking calls") {
    const watchdog watch("a progress thread over MPI");
    allfold::mpi::communicator comm(MPI_COMM_WORLD);
    for (int turn = 0; turn < 3; ++turn) {
        std::vector<int> x(60000, 1), y(3, 2);
        int z = 3;
        {
            allfold::progress_thread helper(comm);
            operation first = helper.start([&](auto& own) { return allfold::all_reduce.start(own, x, sum()); });
            operation second = helper.start([&](auto& own) { allfold::all_reduce(own, y, sum()); });
            operation third = helper.start([&](auto& own) { return allfold::all_reduce.start(own, z, sum()); });
            if (comm.rank() % 2) std::swap(first, second);
            third.wait();
            first.wait();
            second.wait();
        }
        CHECK(x == std::vector(60000, comm.size()));
        CHECK(y == std::vector(3, 2 * comm.size()));
        CHECK(z == 3 * comm.size());
        allfold::all_reduce(comm, z, sum());  // on this thread again
        CHECK(z == 3 * comm.size() * comm.size());
    }
}

TEST_CASE(
    "over MPI too, messages come in order, whatever their length, and collectives in between are none of theirs") {
    const watchdog watch("messages over MPI");
    using allfold::any, allfold::from, allfold::tag, allfold::to, allfold::mode, allfold::status;
    for (const int tags : {2, 1 << 20}) {  // few, so that messages and collectives share them
        allfold::mpi::communicator comm(MPI_COMM_WORLD, allfold::mpi::duplicate, {.tags = tags});
        const int right = (comm.rank() + 1) % comm.size(), left = (comm.rank() + comm.size() - 1) % comm.size();
        for (const std::size_t n : {std::size_t{0}, std::size_t{3}, std::size_t{3000}, std::size_t{300000}})
            for (const mode how : {mode::standard, mode::synchronous}) {
                std::vector<std::vector<int>> x, y;
                std::vector<operation> all;
                for (int i = 0; i < 6; ++i) {
                    x.emplace_back(n, comm.rank() + i);
                    y.emplace_back(n + 2, -1);
                }
                for (std::size_t i = 0; i < 6; ++i)
                    all.push_back(allfold::send.start(comm, x[i], to{right}, tag{static_cast<int>(i % 2)}, how));
                int total = 1;
                allfold::all_reduce(comm, total, sum());
                CHECK(total == comm.size());
                for (const std::size_t i : {1u, 3u, 5u})
                    all.push_back(allfold::receive.start(comm, y[i], from{left}, tag{1}));
                for (const std::size_t i : {0u, 2u})
                    CHECK(allfold::receive(comm, y[i], from{any}) == status{left, 0, n, false});
                allfold::message found = allfold::probe(comm, from{any}, tag{any});
                CHECK(allfold::receive(found, y[4]) == status{left, 0, n, false});
                wait_all(all);
                for (std::size_t i = 0; i < 6; ++i) {
                    std::vector<int> expected(n, left + static_cast<int>(i));
                    expected.resize(n + 2, -1);
                    REQUIRE(y[i] == expected);
                }
                std::vector<int> shorter(n / 2);
                operation sent = allfold::send.start(comm, x[0], to{right});
                if (n > 0)
                    CHECK_THROWS_AS(allfold::receive(comm, shorter, from{left}), allfold::error);
                else
                    allfold::receive(comm, shorter, from{left});
                sent.wait();
            }
    }
}
