// SPDX-License-Identifier: BSL-1.0
#include "test/mpi/support/precompiled.hpp"

template class allfold::detail::engine<allfold::mpi::communicator>;
template class allfold::detail::engine<allfold::hierarchical_communicator<allfold::mpi::communicator>>;
