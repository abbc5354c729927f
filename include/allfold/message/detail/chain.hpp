// SPDX-License-Identifier: BSL-1.0
#pragma once

/// @file
/// Intrusive lists of objects that others own, without allocation: an element can remove itself.

namespace allfold::detail {

/// A link of a circular list. An object that is in several lists has a separate kind of link for each.
template <class Kind>
class chain_link {
  public:
    chain_link() = default;
    chain_link(chain_link&&) noexcept {}  // the new object is in no list
    chain_link& operator=(chain_link&&) = delete;
    ~chain_link() { unlink(); }

    void unlink() noexcept {
        before_->after_ = after_;
        after_->before_ = before_;
        before_ = after_ = this;
    }

  private:
    template <class, class>
    friend class chain;
    void link_before(chain_link& other) noexcept {
        unlink();
        link_alone_before(other);
    }
    /// The same if it is in no list.
    void link_alone_before(chain_link& other) noexcept {
        before_ = other.before_;
        after_ = &other;
        before_->after_ = other.before_ = this;
    }
    chain_link* before_ = this;
    chain_link* after_ = this;
};

/// An intrusive circular list. T derives from its link.
template <class T, class Kind = T>
class chain {
  public:
    chain() = default;
    chain(const chain&) = delete;
    chain& operator=(const chain&) = delete;

    [[nodiscard]] bool empty() const noexcept { return head_.after_ == &head_; }
    /// Null if the list is empty.
    [[nodiscard]] T* first() const noexcept { return at(head_.after_); }
    [[nodiscard]] T* after(const T& each) const noexcept { return at(static_cast<const link&>(each).after_); }
    /// Removes the element from the list that it is in, and appends it to this one.
    void push_back(T& last) noexcept { static_cast<link&>(last).link_before(head_); }
    /// The same for an element that is in no list.
    void push_back_alone(T& last) noexcept { static_cast<link&>(last).link_alone_before(head_); }
    void insert_before(T& next, T& what) noexcept { static_cast<link&>(what).link_before(static_cast<link&>(next)); }
    static void remove(T& what) noexcept { static_cast<link&>(what).unlink(); }

    /// The first element for which `fits` holds; null if there is none.
    template <class Fits>
    [[nodiscard]] T* find(Fits fits) const {
        T* each = first();
        while (each != nullptr && !fits(*each)) each = after(*each);
        return each;
    }

  private:
    using link = chain_link<Kind>;
    [[nodiscard]] T* at(link* where) const noexcept { return where == &head_ ? nullptr : static_cast<T*>(where); }

    link head_;
};

}  // namespace allfold::detail
