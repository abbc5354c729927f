// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "allfold/analysis/detail/search_tree.hpp"
#include "allfold/transport/detail/bounce.hpp"

/// @file
/// Messages in flight between explored ranks.

namespace allfold::detail {

/// A message in transit.
struct explored_message {
    std::uint32_t signature = 0;
    std::size_t bytes = 0;
    int posted_in = -1;
    bounce_buffer memory;
    const char* what = "";   // set if a history is recorded
    std::size_t number = 0;  // likewise
};

/// On each channel, messages are posted, delivered when the search says so, and taken by their rank, all in the same
/// order.
class explored_mail {
  public:
    /// An execution begins.
    void begin() noexcept { used_ = 0; }
    void post(int to, const explored_channel& from, explored_message&& message) {
        find_or_make(to, from).messages.push_back(std::move(message));
    }
    /// The message that can be delivered next; null if there is none.
    [[nodiscard]] const explored_message* next(int to, const explored_channel& from) const {
        const box* const found = find(to, from);
        return found == nullptr || found->arrived == found->count() ? nullptr : &found->messages[found->arrived];
    }
    const explored_message& deliver(int to, const explored_channel& from) {
        box& found = *find(to, from);
        return found.messages[found.arrived++];
    }
    /// Takes the next message that has been delivered.
    [[nodiscard]] std::optional<explored_message> take(int to, const explored_channel& from) {
        box* const found = find(to, from);
        if (found == nullptr || found->taken == found->arrived) return std::nullopt;
        return std::move(found->messages[found->taken++]);
    }
    /// For each channel whose messages have not all been taken, calls visit(to, from, message) for the first message
    /// that has not been delivered, or else for the last one.
    void for_each_leftover(bool messages_only, auto visit) const {
        for (std::size_t i = 0; i < used_; ++i)
            if (const box& each = boxes_[i]; each.taken < each.count() && !(messages_only && !each.from.is_message()))
                visit(each.to, each.from, each.messages[std::min(each.arrived, each.count() - 1)]);
    }

  private:
    struct box {
        int to = 0;
        explored_channel from;
        std::vector<explored_message> messages;
        std::size_t arrived = 0, taken = 0;
        [[nodiscard]] std::size_t count() const noexcept { return messages.size(); }
    };

    [[nodiscard]] const box* find(int to, const explored_channel& from) const {
        for (std::size_t i = 0; i < used_; ++i)
            if (boxes_[i].to == to && boxes_[i].from == from) return &boxes_[i];
        return nullptr;
    }
    [[nodiscard]] box* find(int to, const explored_channel& from) {
        return const_cast<box*>(std::as_const(*this).find(to, from));
    }
    [[nodiscard]] box& find_or_make(int to, const explored_channel& from) {
        if (box* const found = find(to, from)) return *found;
        if (used_ == boxes_.size()) boxes_.emplace_back();
        box& fresh = boxes_[used_++];
        fresh.to = to;
        fresh.from = from;
        fresh.messages.clear();
        fresh.arrived = fresh.taken = 0;
        return fresh;
    }

    std::vector<box> boxes_;  // those in use come first; their memory is reused by the next execution
    std::size_t used_ = 0;
};

}  // namespace allfold::detail
