// SPDX-License-Identifier: BSL-1.0

/// @file
/// The main function of every test; with version 2 of Catch2 also its code. Compiled once.

#define CATCH_CONFIG_RUNNER
#include "test/support/catch.hpp"

int main(int argc, char* argv[]) { return Catch::Session().run(argc, argv); }
