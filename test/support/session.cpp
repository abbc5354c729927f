// SPDX-License-Identifier: BSL-1.0

/// @file
/// With version 2 of Catch2 also its code. Compiled once for all tests.

#define CATCH_CONFIG_RUNNER
#include "test/support/session.hpp"

#include "test/support/catch.hpp"

int test::run_session(int argc, char* argv[]) { return Catch::Session().run(argc, argv); }
