// SPDX-License-Identifier: BSL-1.0
#include "test/support/precompiled.hpp"

#ifndef ALLFOLD_COMPILED  // which has this one
template class allfold::detail::engine<allfold::thread_communicator>;
#endif

#define TEST_INSTANTIATE(...) template __VA_ARGS__;
#include "test/support/instantiations.hpp"
