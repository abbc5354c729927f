// SPDX-License-Identifier: BSL-1.0
#include "allfold/transport/detail/per_thread.hpp"

#include <barrier>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

#include "test/support/catch.hpp"

namespace {

/// Each test has its own kind, since a kind's pool outlives the test.
template <int Test>
struct desk_of : allfold::detail::per_thread<desk_of<Test>> {
    int retired = 0;
    void retire() noexcept { ++retired; }
};

/// Asks in its destructor. If it is older than what its thread got, that has gone to the pool by then.
template <class Desk>
struct late_asker {
    Desk** got = nullptr;
    ~late_asker() { *got = &Desk::mine(); }
};

}  // namespace

TEST_CASE("each thread has its own, and the next one gets what a thread leaves") {
    using desk = desk_of<1>;
    CHECK(desk::of_this_thread == nullptr);
    desk* const own = &desk::mine();
    CHECK(own == desk::of_this_thread);
    CHECK(own == &desk::mine());

    desk* first = nullptr;
    desk* first_again = nullptr;
    std::thread([&] {
        first = &desk::mine();
        first_again = &desk::mine();
    }).join();
    CHECK(first != own);
    CHECK(first == first_again);
    CHECK(first->retired == 1);

    desk* second = nullptr;
    desk* third = nullptr;
    std::thread([&] {
        second = &desk::mine();
        std::thread([&] { third = &desk::mine(); }).join();
    }).join();
    CHECK(second == first);
    CHECK(third != second);
    CHECK(third != own);
    CHECK(second->retired == 2);
    CHECK(own->retired == 0);
}

TEST_CASE("a thread that never asks takes none") {
    using desk = desk_of<2>;
    bool asked = true;
    std::thread([&] { asked = desk::of_this_thread != nullptr; }).join();
    CHECK_FALSE(asked);
}

TEST_CASE("what an object of a thread gets in its destructor is nobody else's") {
    using desk = desk_of<3>;
    desk* at_first = nullptr;
    desk* at_last = nullptr;
    std::thread([&] {
        thread_local late_asker<desk> asker;
        asker.got = &at_last;
        at_first = &desk::mine();
    }).join();
    CHECK(at_first != nullptr);
    CHECK(at_last != nullptr);
    std::vector<desk*> later;
    std::vector<std::thread> threads(4);  // all at once
    std::mutex mutex;
    std::barrier all_have(static_cast<std::ptrdiff_t>(threads.size()));
    for (auto& each : threads)
        each = std::thread([&] {
            desk* const own = &desk::mine();
            all_have.arrive_and_wait();
            const std::lock_guard lock(mutex);
            later.push_back(own);
        });
    for (auto& each : threads) each.join();
    for (desk* const each : later) CHECK(each != at_last);
}
