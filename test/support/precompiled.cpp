// SPDX-License-Identifier: BSL-1.0

/// @file
/// Empty but for its header, which is precompiled with it for all tests.

#include "test/support/precompiled.hpp"
