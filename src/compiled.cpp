// SPDX-License-Identifier: BSL-1.0
#include "allfold/engine/engine.hpp"
#include "allfold/transport/thread_communicator.hpp"

template class allfold::detail::engine<allfold::thread_communicator>;
template void allfold::detail::give_up(allfold::thread_communicator&) noexcept;
