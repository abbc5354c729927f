// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/message/detail/chain.hpp"

/// @file
/// The unfinished sends, receives and probes of a rank. However many there are, one of them makes progress on all, and
/// each ends when everything that it waits for has arrived: the cost of this does not grow with their number.

namespace allfold::detail {

/// An unfinished operation.
class open_message : public chain_link<open_message> {
  public:
    open_message() = default;
    open_message(const open_message&) = delete;
    open_message& operator=(const open_message&) = delete;
    virtual ~open_message() = default;
    /// Everything that it waits for has arrived.
    virtual void end() noexcept = 0;
    /// From now on it makes progress on all of them.
    virtual void lead() noexcept = 0;
    /// It is abandoned with its communicator.
    virtual void drop_alone() noexcept = 0;
    /// If memory is watched: checks whether the program has changed what it uses.
    virtual void check_memory() {}

    /// Whether everything that it waits for has arrived.
    [[nodiscard]] bool is_complete() const noexcept { return awaited_ == 0; }

  protected:
    void await_parts(int parts) noexcept { awaited_ = parts; }

  private:
    friend class open_messages;
    int awaited_ = 0;
};

class open_messages {
  public:
    [[nodiscard]] bool is_empty() const noexcept { return first() == nullptr; }
    /// Whether `m`, which still waits, is the only one.
    [[nodiscard]] bool is_alone(const open_message& m) const noexcept {
        return open_.first() == &m && open_.after(m) == nullptr && complete_.empty();
    }
    void enter(open_message& m) noexcept { open_.push_back(m); }
    void leave(open_message& m) noexcept {
        chain<open_message>::remove(m);
        if (leader_ == &m) leader_ = nullptr;
    }
    /// Makes sure that one operation, if there is any, makes progress on all.
    void find_leader() noexcept {
        if (leader_ != nullptr) return;
        leader_ = first();
        if (leader_ != nullptr) leader_->lead();
    }

    /// One of the parts that an operation waits for has arrived, perhaps the last one.
    void note_done(open_message* owner) noexcept {
        if (owner != nullptr && --owner->awaited_ == 0) complete_.push_back(*owner);
    }
    /// Ends one operation for which everything has arrived; false if there is none. Afterwards another one may have to
    /// lead.
    [[nodiscard]] bool end_one() noexcept {
        open_message* const first = complete_.first();
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
    void check_memory() const {
        for (open_message* each = open_.first(); each != nullptr; each = open_.after(*each)) each->check_memory();
    }

  private:
    [[nodiscard]] open_message* first() const noexcept { return open_.empty() ? complete_.first() : open_.first(); }

    chain<open_message> open_, complete_;  // those still waiting, and those that only have to be ended
    open_message* leader_ = nullptr;
};

}  // namespace allfold::detail
