// SPDX-License-Identifier: BSL-1.0
#pragma once

/// @file
/// What compilers read once for all tests, and the engines that tests find in engines.cpp. Tests nevertheless include
/// what they use.

#include "allfold/allfold.hpp"
#include "allfold/transport/hierarchy.hpp"
#include "allfold/transport/relayed_communicator.hpp"
#include "test/support/catch.hpp"
#include "test/support/provers.hpp"
#include "test/support/remote.hpp"

extern template class allfold::detail::engine<allfold::thread_communicator>;
extern template class allfold::detail::engine<allfold::self>;
extern template class allfold::detail::engine<test::remote>;
extern template class allfold::detail::engine<allfold::relayed_communicator>;
extern template class allfold::detail::engine<allfold::hierarchical_communicator<test::remote>>;
