// SPDX-License-Identifier: BSL-1.0
#include "test/transport/doorbell_checks.hpp"

TEST_CASE("there is at least one processor") { CHECK(allfold::detail::usable_processors() >= 1); }
