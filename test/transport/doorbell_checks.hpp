// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective.hpp"
#include "allfold/transport/detail/doorbell.hpp"
#include "allfold/transport/thread.hpp"
#include "test/support/catch.hpp"
#include "test/support/oracle.hpp"
#include "test/support/ranks.hpp"

/// @file
/// Tests of the doorbell, whichever one is selected where this is included.

namespace {

using namespace std::chrono_literals;

const auto never = std::chrono::steady_clock::now() + 24h;

}  // namespace

TEST_CASE("a thread that finds news just before it sleeps does not sleep") {
    const test::watchdog watch("news");
    allfold::detail::doorbell bell;
    bell.sleep([] { return true; }, never);
    bell.ring();
    bell.sleep([] { return true; }, never);
    SUCCEED();
}

TEST_CASE("a sleep ends at its time") {
    const test::watchdog watch("end of a sleep");
    allfold::detail::doorbell bell;
    const auto until = std::chrono::steady_clock::now() + 5ms;
    while (std::chrono::steady_clock::now() < until) bell.sleep([] { return false; }, until);
    bell.sleep([] { return false; }, until);
    SUCCEED();
}

TEST_CASE("what the search for news throws is passed on, and the bell still works") {
    allfold::detail::doorbell bell;
    CHECK_THROWS_AS(bell.sleep([]() -> bool { throw std::runtime_error("bad news"); }, never), std::runtime_error);
    bell.sleep([] { return true; }, never);
}

TEST_CASE("no ring is lost, however close to the sleep it comes") {
    const test::watchdog watch("a ring that is lost");
    constexpr int turns = 20000;
    allfold::detail::doorbell bells[2];
    std::atomic<int> sent[2] = {0, 0};
    const auto play = [&](int self) {
        const int other = 1 - self;
        for (int turn = 1; turn <= turns; ++turn) {
            sent[self].store(turn, std::memory_order_release);
            bells[other].ring();
            const auto news = [&] { return sent[other].load(std::memory_order_acquire) >= turn; };
            while (!news()) bells[self].sleep(news, never);
        }
    };
    std::thread one(play, 0), two(play, 1);
    one.join();
    two.join();
    SUCCEED();
}

TEST_CASE("ranks that sleep at once are woken for every collective") {
    for (const int size : {2, 3, 8})
        test::on_ranks(size,
                       [&](auto& comm) {
                           for (const std::size_t n : {std::size_t{1}, std::size_t{100}, std::size_t{30000}}) {
                               for (int turn = 0; turn < 30; ++turn) {
                                   std::vector<int> x(n, 1);
                                   allfold::all_reduce(comm, x, allfold::sum());
                                   test::expect(x == std::vector(n, size), "wrong sum");
                                   allfold::broadcast(comm, x, allfold::root{turn % size});
                                   allfold::barrier(comm);
                               }
                           }
                       },
                       {.spins = 0, .yields = 0});
    SUCCEED();
}
