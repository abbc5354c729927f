// SPDX-License-Identifier: BSL-1.0
#include "allfold/transport/detail/per_thread.hpp"

#include <set>
#include <thread>
#include <vector>

#include "test/support/catch.hpp"

namespace {

struct desk : allfold::detail::per_thread<desk> {
    int retired = 0;
    void retire() noexcept { ++retired; }
};

}  // namespace

TEST_CASE("each thread has its own, and the next one gets what a thread leaves") {
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
    bool asked = true;
    std::thread([&] { asked = desk::of_this_thread != nullptr; }).join();
    CHECK_FALSE(asked);
}
