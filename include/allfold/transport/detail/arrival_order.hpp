// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>

/// @file
/// Whether a program can tell in which order messages have come.

namespace allfold::detail {

/// Something that a rank asks whose answer depends on what has come so far: a test, a wait for any of several, a
/// cancel, a receive from any rank.
enum class order_question : std::uint8_t {
    now,          ///< where the rank looks for what has come
    of_messages,  ///< which of them comes first, as a receive from any rank
    of_the_past,  ///< of what has come before, collectives too, without another look
    to_others     ///< of what other ranks have done by the time that something comes to them
};

/// Hears of the questions of a thread: analysis/explore, all of whose ranks share one.
class order_observer {
  public:
    virtual void note(order_question what) noexcept = 0;
    /// A call that finds all that has come by now looks for it, after a wait or instead of one; not `at_ends`: for
    /// messages, and not whether collectives have ended.
    virtual void look(bool at_ends) = 0;
    /// A function will be called at the end of an operation.
    virtual void note_callback() = 0;
    /// The program would like to take back a send, which may be done: that of this call of its rank.
    virtual void note_cancel_of_send(std::size_t call) = 0;

  protected:
    ~order_observer() = default;
};
inline constinit thread_local order_observer* observer_of_order = nullptr;

/// Whether somebody says what has come by now, other than the transport.
[[nodiscard]] inline bool is_order_observed() noexcept { return observer_of_order != nullptr; }
/// Where that is so, beside a wait.
inline void look_as_observed(bool at_ends) {
    if (is_order_observed()) [[unlikely]]
        observer_of_order->look(at_ends);
}
inline void note_callback() {
    if (is_order_observed()) [[unlikely]]
        observer_of_order->note_callback();
}
inline void note_cancel_of_send(std::size_t call) {
    if (is_order_observed()) [[unlikely]]
        observer_of_order->note_cancel_of_send(call);
}
inline void note_question(order_question what) noexcept {
    if (is_order_observed()) [[unlikely]]
        observer_of_order->note(what);
}
/// Where it is asked, and where the answer is known if that is later.
inline void note_question_of_order() noexcept { note_question(order_question::now); }
inline void note_question_of_messages() noexcept { note_question(order_question::of_messages); }
inline void note_question_of_the_past() noexcept { note_question(order_question::of_the_past); }
inline void note_question_to_others() noexcept { note_question(order_question::to_others); }

}  // namespace allfold::detail
