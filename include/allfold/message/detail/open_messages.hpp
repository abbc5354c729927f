// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/message/detail/chain.hpp"

/// @file
/// The operations of a rank that send, receive or probe, as long as they are not done. However many they are, one of
/// them pushes on all, and each ends when what it waits for has come: what that costs does not grow with their number.

namespace allfold::detail {

/// An operation that is not done.
class open_message : public chain_link<open_message> {
  public:
    open_message() = default;
    open_message(const open_message&) = delete;
    open_message& operator=(const open_message&) = delete;
    virtual ~open_message() = default;
    /// All that it waits for has come.
    virtual void end() noexcept = 0;
    /// From now on it pushes on all of them.
    virtual void lead() noexcept = 0;
    /// It gives up, with its communicator.
    virtual void drop_alone() noexcept = 0;
    /// Where somebody watches memory: whether its place has been written before its message has come.
    virtual void check_place() {}

    /// Whether all that it waits for has come.
    [[nodiscard]] bool has_come() const noexcept { return awaited_ == 0; }

  protected:
    void await_parts(int parts) noexcept { awaited_ = parts; }

  private:
    friend class open_messages;
    int awaited_ = 0;
};

class open_messages {
  public:
    void enter(open_message& m) noexcept { open_.push_back(m); }
    void leave(open_message& m) noexcept {
        chain<open_message>::remove(m);
        if (leader_ == &m) leader_ = nullptr;
    }
    /// One of those that are there, if there are any, pushes on all.
    void find_leader() noexcept {
        if (leader_ != nullptr) return;
        leader_ = first();
        if (leader_ != nullptr) leader_->lead();
    }

    /// One of the parts that it waits for has come; perhaps it was the last.
    void note_done(open_message* owner) noexcept {
        if (owner != nullptr && --owner->awaited_ == 0) come_.push_back(*owner);
    }
    /// Ends one for which all has come; false where there is none. Then another one may have to lead.
    [[nodiscard]] bool end_one() noexcept {
        open_message* const first = come_.first();
        if (first == nullptr) return false;
        leave(*first);
        first->end();
        return true;
    }
    void drop_all() noexcept {
        while (open_message* const each = first()) {
            leave(*each);
            each->drop_alone();
        }
    }
    void check_places() const {
        for (open_message* each = open_.first(); each != nullptr; each = open_.after(*each)) each->check_place();
    }

  private:
    [[nodiscard]] open_message* first() const noexcept { return open_.empty() ? come_.first() : open_.first(); }

    chain<open_message> open_, come_;  // what waits for something, and what only has to be told
    open_message* leader_ = nullptr;
};

}  // namespace allfold::detail
