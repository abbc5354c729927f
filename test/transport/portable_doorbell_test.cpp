// SPDX-License-Identifier: BSL-1.0
#define ALLFOLD_PORTABLE_DOORBELL
#include "test/transport/doorbell_checks.hpp"

TEST_CASE("the portable doorbell can be asked for") { STATIC_REQUIRE(ALLFOLD_FUTEX_DOORBELL == 0); }
