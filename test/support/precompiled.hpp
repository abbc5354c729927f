// SPDX-License-Identifier: BSL-1.0
#pragma once

/// @file
/// What compilers read once for all tests. Tests include what they use all the same.

#include "allfold/allfold.hpp"
#include "test/support/catch.hpp"
