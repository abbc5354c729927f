// SPDX-License-Identifier: BSL-1.0
#include "allfold/algebra/elementwise.hpp"

#include <cstddef>
#include <numeric>
#include <vector>

#include "test/support/catch.hpp"

using allfold::detail::elementwise;
using allfold::detail::touches;

namespace {

std::vector<float> counting_from(float first, std::size_t count) {
    std::vector<float> values(count);
    std::iota(values.begin(), values.end(), first);
    return values;
}

template <touches What>
void check_all_places(std::size_t count) {
    INFO(count << " elements");
    const auto twice_minus = [](float x, float y) { return 2 * x - y; };
    const std::vector<float> a = counting_from(0, count), b = counting_from(100, count);
    const std::vector<float> expected = counting_from(-100, count);

    std::vector<float> out(count), left = a, right = b, both = a;
    elementwise<What>(a.data(), b.data(), out.data(), count, twice_minus);
    elementwise<What>(left.data(), b.data(), left.data(), count, twice_minus);
    elementwise<What>(a.data(), right.data(), right.data(), count, twice_minus);
    elementwise<What>(both.data(), both.data(), both.data(), count, twice_minus);
    CHECK(out == expected);
    CHECK(left == expected);
    CHECK(right == expected);
    CHECK(both == a);
}

}  // namespace

TEST_CASE("elementwise writes to a third array, over either operand, and over both") {
    for (const std::size_t count : {0U, 1U, 3U, 8U, 15U, 16U, 17U, 1000U}) {
        check_all_places<touches::anything>(count);
        check_all_places<touches::nothing>(count);
    }
}

TEST_CASE("elementwise calls a function with state once for each element, in order") {
    std::vector<float> a = counting_from(0, 1000), seen;
    elementwise<touches::anything>(a.data(), a.data(), a.data(), a.size(), [&](float x, float y) {
        seen.push_back(y);
        return x;
    });
    CHECK(seen == a);
}

TEST_CASE("elementwise lets a function count in an array of its own, however it is optimised") {
    const std::vector<float> a(1000, 1), b(1000, 2);
    std::vector<float> out(1000);
    std::vector<int> histogram(4);
    elementwise<touches::anything>(a.data(), b.data(), out.data(), out.size(), [&histogram](float x, float y) {
        ++histogram[static_cast<std::size_t>(x) & 3];
        return x + y;
    });
    CHECK(histogram == std::vector<int>{0, 1000, 0, 0});
}
