// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

#include "allfold/engine/short_call.hpp"
#include "allfold/transport/thread.hpp"

/// @file
/// Whether calls took the short path.

namespace test {

/// How many calls a communicator has found among those that it remembers.
inline std::uint64_t short_calls_of(allfold::thread_communicator& comm) {
    const auto* const calls = static_cast<const allfold::detail::short_calls*>(comm.background().kept.get());
    return calls != nullptr ? calls->found() : 0;
}
template <class Call>
bool goes_the_short_way(allfold::thread_communicator& comm, Call call) {
    const std::uint64_t before = short_calls_of(comm);
    call();
    return short_calls_of(comm) == before + 1;
}

}  // namespace test
