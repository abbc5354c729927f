// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <vector>

/// @file
/// What to do after the last test, before MPI is finalised.

namespace test {

inline std::vector<void (*)()> at_end;

}  // namespace test
