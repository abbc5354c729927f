// SPDX-License-Identifier: BSL-1.0
#pragma once

namespace test {

/// Runs the test cases of a program as its arguments say, and returns its exit status.
int run_session(int argc, char* argv[]);

}  // namespace test
