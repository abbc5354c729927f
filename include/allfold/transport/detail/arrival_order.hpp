// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstdint>

/// @file
/// Whether a program can tell in which order messages have come.

namespace allfold::detail {

/// How often this thread has asked something whose answer depends on what has come so far: a test, a wait for any of
/// several, a cancel, a receive from any rank. Read by analysis/explore, whose ranks share a thread.
struct questions_of_order {
    std::uint64_t now = 0;          ///< where the rank looks for what has come
    std::uint64_t of_messages = 0;  ///< which of them comes first, as a receive from any rank
    std::uint64_t of_the_past = 0;  ///< of what has come before, collectives too, without another look
    std::uint64_t to_others = 0;    ///< of what other ranks have done by the time that something comes to them

    friend bool operator==(const questions_of_order&, const questions_of_order&) = default;
};
inline constinit thread_local questions_of_order asked_so_far;

/// Where it is asked, and where the answer is known if that is later.
inline void note_question_of_order() noexcept { ++asked_so_far.now; }
inline void note_question_of_messages() noexcept { ++asked_so_far.of_messages; }
inline void note_question_of_the_past() noexcept { ++asked_so_far.of_the_past; }
inline void note_question_to_others() noexcept { ++asked_so_far.to_others; }

}  // namespace allfold::detail
