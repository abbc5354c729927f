// SPDX-License-Identifier: BSL-1.0
#include "allfold/data/detail/small_vector.hpp"

#include <array>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "test/support/catch.hpp"

namespace {

using small = allfold::detail::small_vector<int, 4>;

small numbers_to(int count) {
    small made;
    for (int i = 0; i < count; ++i) made.push_back(i);
    return made;
}
bool are_numbers_to(const small& all, int count) {
    bool right = all.size() == static_cast<std::size_t>(count);
    for (int i = 0; right && i < count; ++i) right = all[static_cast<std::size_t>(i)] == i;
    return right;
}

}  // namespace

TEST_CASE("a small vector keeps its elements where it grows, and is copied and moved whatever its length") {
    for (const int count : {0, 1, 4, 5, 8, 9, 100}) {
        INFO("of " << count << " elements");
        small all = numbers_to(count);
        CHECK(are_numbers_to(all, count));
        CHECK(all.empty() == (count == 0));
        small copy(all);
        CHECK(are_numbers_to(copy, count));
        for (const int others : {0, 3, 7}) {
            small assigned = numbers_to(others);
            assigned = copy;
            CHECK(are_numbers_to(assigned, count));
            assigned = numbers_to(others);
            CHECK(are_numbers_to(assigned, others));
        }
        const small moved(std::move(all));
        CHECK(are_numbers_to(moved, count));
        for (int i = 0; i < 6; ++i) all.push_back(i);  // NOLINT(bugprone-use-after-move): it is empty
        CHECK(are_numbers_to(all, 6));
        all = numbers_to(6);
        CHECK(are_numbers_to(all, 6));
        CHECK(are_numbers_to(moved, count));
    }
}

TEST_CASE("a small vector is made from a range, or from one value, and may add its own elements") {
    const std::array given{0, 1, 2, 3, 4};
    CHECK(are_numbers_to(small(std::span<const int>(given)), 5));
    const small alike(6, 7);
    CHECK(std::vector<int>(alike.begin(), alike.end()) == std::vector<int>(6, 7));
    small all = numbers_to(4);
    all.push_back(all[3]);
    CHECK(all.back() == 3);
    all.reserve(50);
    CHECK(all[3] == 3);
    CHECK(all.size() == 5);
}
