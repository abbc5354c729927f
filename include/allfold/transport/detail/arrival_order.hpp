// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

/// @file
/// Whether a program can tell in which order messages have come.

namespace allfold::detail {

/// How often this thread has asked something whose answer depends on what has come so far: a test, a wait for any of
/// several, a cancel, a receive from any rank. Read by analysis/explore, whose ranks share a thread.
inline constinit thread_local std::uint64_t questions_of_order = 0;

inline void note_question_of_order() noexcept { ++questions_of_order; }

}  // namespace allfold::detail
