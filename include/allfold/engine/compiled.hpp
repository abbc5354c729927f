// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include "allfold/engine/engine.hpp"
#include "allfold/engine/short_call.hpp"
#include "allfold/engine/short_pair.hpp"

/// @file
/// Extern templates of the engine for threads: programs that link with `allfold::compiled` use the instantiations there
/// instead of compiling the engine in each translation unit. Its ranks sleep on futexes where the platform has them; a
/// program that asks for the portable doorbell compiles an engine of its own.

#if defined(ALLFOLD_COMPILED) && !defined(ALLFOLD_PORTABLE_DOORBELL)
#include "allfold/transport/thread_communicator.hpp"

extern template class allfold::detail::engine<allfold::thread_communicator>;
extern template void allfold::detail::abort_communicator(allfold::thread_communicator&) noexcept;
extern template void allfold::detail::run_again(allfold::thread_communicator&, const allfold::detail::short_call&,
                                                const allfold::detail::row_layout&,
                                                const allfold::detail::short_memory&,
                                                const allfold::detail::short_memory&);
extern template void allfold::detail::run_flat_pair(allfold::thread_communicator&, const allfold::detail::short_call&,
                                                    const allfold::detail::row_functions&, const void*, std::byte*,
                                                    std::byte*);
extern template void allfold::detail::run_pair_of_rows(allfold::thread_communicator&,
                                                       const allfold::detail::short_call&,
                                                       const allfold::detail::row_layout&,
                                                       const allfold::detail::short_memory&,
                                                       const allfold::detail::short_memory&);
#endif
