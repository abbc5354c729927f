// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "allfold/transport/detail/arrival_order.hpp"

/// @file
/// What the program asks, in an execution, that depends on the order in which messages arrive.

namespace allfold::detail {

/// A send, identified by the call of its rank that starts it, counted from 1.
struct explored_send {
    int rank;
    std::size_t call;
    friend auto operator<=>(const explored_send&, const explored_send&) = default;
};

/// Adds a send to others in order, unless it is among them.
inline void insert(std::vector<explored_send>& sorted, const explored_send& one) {
    const auto place = std::ranges::lower_bound(sorted, one);
    if (place == sorted.end() || *place != one) sorted.insert(place, one);
}

/// The ranks that have asked something in this execution: in which order messages have arrived, whether operations
/// have ended, or something that may depend on the order of everything that arrives.
struct asking_ranks {
    std::uint64_t of_messages = 0, of_ends = 0, of_all = 0;
    std::uint64_t of_sends = 0;             // whether standard sends have ended
    std::vector<explored_send> of_cancels;  // whether these can still be cancelled
    bool has_ready_sends = false;           // then it matters to all ranks what has arrived
    friend bool operator==(const asking_ranks&, const asking_ranks&) = default;
    asking_ranks& operator|=(const asking_ranks& other) {
        of_messages |= other.of_messages;
        of_ends |= other.of_ends;
        of_all |= other.of_all;
        of_sends |= other.of_sends;
        for (const explored_send& each : other.of_cancels) insert(of_cancels, each);
        has_ready_sends |= other.has_ready_sends;
        return *this;
    }
};

class explored_questions {
  public:
    void begin() {
        has_asked_ = sends_ready_ = false;
        asks_ = asks_for_ends_ = sees_all_ = clears_ = asks_for_sends_ = 0;
        cancelled_.clear();
    }
    /// A rank resumes: nothing has been asked since then.
    void resume() noexcept { has_asked_ = false; }
    [[nodiscard]] bool has_asked() const noexcept { return has_asked_; }
    void note(int rank, order_question what) noexcept {
        const std::uint64_t self = std::uint64_t{1} << rank;
        has_asked_ = true;
        asks_ |= self;
        if (what == order_question::now) asks_for_ends_ |= self;
        if (what == order_question::now || what == order_question::of_the_past) asks_for_sends_ |= self;
        if (what == order_question::of_the_past) sees_all_ |= self;
        if (what != order_question::to_others) return;
        sends_ready_ = true;
        note_of_all();
    }
    /// All ranks ask for everything.
    void note_of_all() noexcept {
        has_asked_ = true;
        asks_ = asks_for_ends_ = sees_all_ = ~std::uint64_t{0};
    }
    void note_cancel(const explored_send& what) { insert(cancelled_, what); }
    /// The rank has requested the data of a message. Another rank that asks may see in which order it does so for
    /// several messages, which is the order in which they have arrived.
    void note_clear(int rank) noexcept { clears_ |= std::uint64_t{1} << rank; }
    [[nodiscard]] asking_ranks asked() const {
        const std::uint64_t all = sees_all_ | (asks_ != 0 ? clears_ : 0);
        return {asks_ | all, asks_for_ends_ | all, all, asks_for_sends_, cancelled_, sends_ready_};
    }

  private:
    bool has_asked_ = false;  // something, since a rank was resumed
    bool sends_ready_ = false;
    std::uint64_t asks_ = 0, asks_for_ends_ = 0, sees_all_ = 0, clears_ = 0, asks_for_sends_ = 0;
    std::vector<explored_send> cancelled_;
};

}  // namespace allfold::detail
