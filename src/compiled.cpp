// SPDX-License-Identifier: BSL-1.0
#include "allfold/engine/compiled.hpp"

template class allfold::detail::engine<allfold::thread_communicator>;
