// SPDX-License-Identifier: BSL-1.0
#pragma once

/// @file
/// What compilers read once for all tests, and the engines that tests find in engines.cpp. Tests nevertheless include
/// what they use.

#include <cstddef>
#include <string>
#include <vector>

#include "allfold/allfold.hpp"
#include "allfold/transport/hierarchy.hpp"
#include "allfold/transport/relayed_communicator.hpp"
#include "test/support/catch.hpp"
#include "test/support/provers.hpp"
#include "test/support/remote.hpp"

extern template class allfold::detail::engine<allfold::thread_communicator>;

#define TEST_INSTANTIATE(...) extern template __VA_ARGS__;
#include "test/support/instantiations.hpp"
#undef TEST_INSTANTIATE
