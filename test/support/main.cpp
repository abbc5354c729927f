// SPDX-License-Identifier: BSL-1.0

/// @file
/// The main function of every test.

#include "test/support/session.hpp"

int main(int argc, char* argv[]) { return test::run_session(argc, argv); }
