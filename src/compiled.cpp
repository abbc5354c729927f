// SPDX-License-Identifier: BSL-1.0
#include "allfold/engine/engine.hpp"
#include "allfold/engine/short_pair.hpp"
#include "allfold/transport/thread_communicator.hpp"

template class allfold::detail::engine<allfold::thread_communicator>;
template void allfold::detail::abort_communicator(allfold::thread_communicator&) noexcept;
template void allfold::detail::run_again(allfold::thread_communicator&, const allfold::detail::short_call&,
                                         const allfold::detail::row_layout&, const allfold::detail::short_memory&,
                                         const allfold::detail::short_memory&);
template void allfold::detail::run_flat_pair(allfold::thread_communicator&, const allfold::detail::short_call&,
                                             const allfold::detail::row_functions&, const void*, std::byte*,
                                             std::byte*);
template void allfold::detail::run_pair_of_rows(allfold::thread_communicator&, const allfold::detail::short_call&,
                                                const allfold::detail::row_layout&,
                                                const allfold::detail::short_memory&,
                                                const allfold::detail::short_memory&);
