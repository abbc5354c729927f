// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

/// @file
/// Whether a program can observe the order in which messages arrive.

namespace allfold::detail {

/// A question of a rank whose answer depends on what has arrived so far: a test, a wait for any of several, a cancel, a
/// receive from any rank.
enum class order_question : std::uint8_t {
    now,          ///< what has arrived at the point where the rank looks
    of_messages,  ///< which message arrives first, as in a receive from any rank
    of_the_past,  ///< what had arrived before, collectives included, without looking again
    at_the_end,   ///< whether what is released now is done when its communicator ends
    to_others     ///< what other ranks have done by the time something reaches them
};

/// Is notified of the questions that a thread asks: used by analysis/explore, all of whose ranks share one thread.
class order_observer {
  public:
    virtual void note(order_question what) noexcept = 0;
    /// A call looks for everything that has arrived by now, after a wait or instead of one. Unless `at_ends`, it looks
    /// for messages only, and not for collectives that have ended.
    virtual void look(bool at_ends) = 0;
    /// A function will be called when an operation ends.
    virtual void note_callback() = 0;
    /// The program asks to cancel a send, which may already be done: the one made by this call of its rank.
    virtual void note_cancel_of_send(std::size_t call) = 0;
    /// Exchanges the operations that the program asks about at present, all at once, for `others`.
    virtual void swap_operations(std::vector<const void*>& others) noexcept = 0;

  protected:
    ~order_observer() = default;
};
inline constinit thread_local order_observer* observer_of_order = nullptr;

/// Whether something other than the transport decides what has arrived by now.
[[nodiscard]] inline bool is_order_observed() noexcept { return observer_of_order != nullptr; }
/// If so, looks for it, in addition to any wait.
inline void look_as_observed(bool at_ends) {
    if (is_order_observed()) [[unlikely]]
        observer_of_order->look(at_ends);
}
/// While this exists, the program asks about these operations.
class question_about {
  public:
    explicit question_about(std::vector<const void*> operations) noexcept : others_(std::move(operations)) { swap(); }
    question_about(const question_about&) = delete;
    question_about& operator=(const question_about&) = delete;
    ~question_about() { swap(); }

  private:
    void swap() noexcept {
        if (is_order_observed()) [[unlikely]]
            observer_of_order->swap_operations(others_);
    }
    std::vector<const void*> others_;
};
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
/// Called where the question is asked, and again where the answer becomes known if that is later.
inline void note_question_of_order() noexcept { note_question(order_question::now); }
inline void note_question_of_messages() noexcept { note_question(order_question::of_messages); }
inline void note_question_of_the_past() noexcept { note_question(order_question::of_the_past); }
inline void note_question_at_the_end() noexcept { note_question(order_question::at_the_end); }
inline void note_question_to_others() noexcept { note_question(order_question::to_others); }

}  // namespace allfold::detail
