// SPDX-License-Identifier: BSL-1.0
#pragma once

/// @file
/// The precompiled header of all tests over MPI. The engines are instantiated in engine.cpp.

#include "allfold/transport/hierarchy.hpp"
#include "allfold/transport/mpi.hpp"
#include "test/support/precompiled.hpp"

extern template class allfold::detail::engine<allfold::mpi::communicator>;
extern template class allfold::detail::engine<allfold::hierarchical_communicator<allfold::mpi::communicator>>;
