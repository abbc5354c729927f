// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <vector>

/// @file
/// What is to be done after the last test, while MPI is still there.

namespace test {

inline std::vector<void (*)()> at_end;

}  // namespace test
