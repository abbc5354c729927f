// SPDX-License-Identifier: BSL-1.0
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective.hpp"
#include "allfold/transport/thread.hpp"
#include "test/support/catch.hpp"
#include "test/support/ranks.hpp"

using namespace allfold;
using namespace std::chrono_literals;
using test::outcomes_on_ranks;

TEST_CASE("a rank that throws releases all others, who are told which one and why") {
    for (const int size : {2, 3, 8}) {
        const auto outcomes = outcomes_on_ranks(size, [](auto& comm) {
            std::vector<float> x(1000, 1.0f);
            all_reduce(comm, x, sum{});
            if (comm.rank() == 1) throw std::runtime_error("no more paper");
            for (int i = 0; i < 100; ++i) all_reduce(comm, x, sum{});
        });
        for (std::size_t r = 0; r < outcomes.size(); ++r) {
            if (r == 1) continue;
            INFO(outcomes[r].text);
            CHECK(outcomes[r].code == errc::peer_failed);
            CHECK(outcomes[r].says("rank 1 failed"));
            CHECK(outcomes[r].says("no more paper"));
        }
    }
}

TEST_CASE("run throws the first exception as it was") {
    struct my_error {};
    CHECK_THROWS_AS(run(4,
                        [](auto& comm) {
                            if (comm.rank() == 2) throw my_error();
                            barrier(comm);
                        }),
                    my_error);
}

TEST_CASE("an operator that throws in the middle releases all others") {
    for (const std::size_t n : {std::size_t{1}, std::size_t{50000}}) {
        const auto outcomes = outcomes_on_ranks(3, [n](auto& comm) {
            const int self = comm.rank();
            const auto fragile = commutative([self](int a, int b) {
                if (self == 0) throw std::domain_error("operator of rank 0");
                return a + b;
            });
            std::vector<int> x(n, 1);
            all_reduce(comm, x, fragile);
            barrier(comm);
        });
        CHECK(outcomes[0].says("operator of rank 0"));
        for (const auto& each : outcomes) CHECK_FALSE(each.succeeded());
    }
}

TEST_CASE("memory that has been lent is not touched after its owner has gone") {
    // Under AddressSanitizer and ThreadSanitizer a read of what a throwing rank has freed is an error.
    for (int round = 0; round < 50; ++round) {
        const auto outcomes = outcomes_on_ranks(4, [round](auto& comm) {
            std::vector<float> x(30000, 1.0f), y(30000);
            for (int i = 0; i < 3; ++i) {
                if (comm.rank() == round % 4 && i == 1 + round % 2) throw std::runtime_error("out");
                all_reduce(comm, x, y, sum{});
                all_reduce(comm, y, sum{}, ring{});
            }
        });
        for (const auto& each : outcomes) CHECK_FALSE(each.succeeded());
    }
}

TEST_CASE("a rank that returns early is named by those who wait for it") {
    const auto outcomes = outcomes_on_ranks(3, [](auto& comm) {
        if (comm.rank() != 2) barrier(comm);
    });
    CHECK(outcomes[2].succeeded());
    bool named = false;
    for (const auto& each : {outcomes[0], outcomes[1]}) {
        INFO(each.text);
        CHECK(each.code == errc::peer_failed);
        named |= each.says("waits for rank 2") && each.says("returned");
    }
    CHECK(named);
}

TEST_CASE("a rank that returns although it has been lent something releases its owner") {
    const auto outcomes = outcomes_on_ranks(2, [](auto& comm) {
        std::vector<float> x(100000, 1.0f);
        if (comm.rank() == 0) broadcast(comm, x);
    });
    INFO(outcomes[0].text);
    CHECK(outcomes[0].code == errc::peer_failed);
    CHECK(outcomes[0].says("rank 1"));
}

TEST_CASE("a deadline releases all ranks with a table of who waits for whom") {
    const auto outcomes = outcomes_on_ranks(3, [](auto& comm) {
        float x = 1;
        if (comm.rank() == 1) std::this_thread::sleep_for(400ms);
        all_reduce(comm, x, sum{}, deadline{100ms});
    });
    bool table = false;
    for (const auto& each : outcomes) {
        INFO(each.text);
        CHECK(each.code == errc::timeout);
        table |= each.says("waits for rank 1 in all_reduce") && each.says("rank 1 is not waiting");
    }
    CHECK(table);
}

TEST_CASE("a deadline that is met changes nothing") {
    test::on_ranks(3, [](auto& comm) {
        int x = comm.rank();
        for (int i = 0; i < 100; ++i) all_reduce(comm, x, max{}, deadline{100s});
        CHECK(x == 2);
    });
}

TEST_CASE("threads of the user's own can be ranks") {
    thread_world world(3);
    std::vector<int> results(3);
    std::vector<std::thread> threads;
    for (int r = 0; r < 3; ++r)
        threads.emplace_back([&world, &results, r] {
            thread_communicator comm = world.communicator(r);
            int x = r + 1;
            all_reduce(comm, x, sum{});
            results[static_cast<std::size_t>(r)] = x;
        });
    for (auto& each : threads) each.join();
    CHECK(results == std::vector<int>{6, 6, 6});
}
