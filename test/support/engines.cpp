// SPDX-License-Identifier: BSL-1.0
#include "test/support/precompiled.hpp"

#ifndef ALLFOLD_COMPILED  // which has this one
template class allfold::detail::engine<allfold::thread_communicator>;
#endif
template class allfold::detail::engine<allfold::self>;
template class allfold::detail::engine<test::remote>;
template class allfold::detail::engine<allfold::relayed_communicator>;
template class allfold::detail::engine<allfold::hierarchical_communicator<test::remote>>;
