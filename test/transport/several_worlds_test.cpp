// SPDX-License-Identifier: BSL-1.0
#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/engine/operation.hpp"
#include "allfold/transport/thread.hpp"
#include "test/support/catch.hpp"
#include "test/support/patience.hpp"
#include "test/support/ranks.hpp"
#include "test/support/watchdog.hpp"

// Threads that have communicators of several worlds. A thread that nobody wakes looks for itself after a second, in
// every turn; on a busy machine one that is woken may be as late, but not in every turn.

using namespace std::chrono_literals;
using allfold::operation;
using allfold::sum;
using allfold::thread_communicator;
using allfold::thread_world;
using clock_type = std::chrono::steady_clock;

TEST_CASE("a thread asleep in one world is woken by a message in another one") {
    const test::watchdog watch("two worlds");
    const bool is_soon = test::succeeds_now_and_then([] {
        thread_world one(2, test::impatient), other(2, test::impatient);
        clock_type::time_point sent, woken;
        std::atomic<bool> is_awake = false;
        std::thread peer([&] {
            thread_communicator in_one = one.communicator(1), in_other = other.communicator(1);
            std::this_thread::sleep_for(100ms);  // long enough for the other to go to sleep
            int x = 1, y = 1;
            sent = clock_type::now();
            allfold::all_reduce(in_other, y, sum());
            while (!is_awake) std::this_thread::yield();
            allfold::all_reduce(in_one, x, sum());
        });
        thread_communicator in_one = one.communicator(0), in_other = other.communicator(0);
        int x = 1, y = 1;
        std::vector<operation> both;
        both.push_back(allfold::all_reduce.start(in_one, x, sum()));
        both.push_back(allfold::all_reduce.start(in_other, y, sum()));
        CHECK(wait_any(both) == 1);
        woken = clock_type::now();
        is_awake = true;
        wait_all(both);
        peer.join();
        CHECK(x + y == 4);
        return woken - sent < 500ms;
    });
    CHECK(is_soon);
}

TEST_CASE("a communicator may be handed from one thread to another, which then is the one to wake") {
    const test::watchdog watch("a communicator that moves");
    thread_world world(2, test::impatient);
    thread_communicator mine = world.communicator(0);
    std::array<clock_type::time_point, 5> sent;
    std::thread peer([&] {
        thread_communicator comm = world.communicator(1);
        for (auto& when : sent) {
            std::this_thread::sleep_for(30ms);
            int x = 1;
            when = clock_type::now();
            allfold::all_reduce(comm, x, sum());
        }
    });
    int soon = 0;
    for (const auto& when : sent)
        std::thread([&] {
            int x = 1;
            allfold::all_reduce(mine, x, sum());
            if (clock_type::now() - when < 500ms) ++soon;
        }).join();
    peer.join();
    CHECK(soon > 0);
}
