// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <vector>

#include "test/support/catch.hpp"
#include "test/support/ranks.hpp"

namespace test {

/// Every rank must have failed with an error of the library, none with a check of this test.
inline void require_codes(const std::vector<outcome>& outcomes) {
    for (const outcome& each : outcomes) {
        INFO(each.text);
        CHECK(each.code.has_value());
    }
}

}  // namespace test
