// SPDX-License-Identifier: BSL-1.0
#pragma once

/// @file
/// Lists of what others own, without allocation: whatever is in one can leave it by itself.

namespace allfold::detail {

/// A place in a circular list. What is in several lists has a link of its own kind for each.
template <class Kind>
class chain_link {
  public:
    chain_link() = default;
    chain_link(chain_link&&) noexcept {}  // what has been moved is in no list
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
    void stand_before(chain_link& other) noexcept {
        unlink();
        before_ = other.before_;
        after_ = &other;
        before_->after_ = other.before_ = this;
    }
    chain_link* before_ = this;
    chain_link* after_ = this;
};

/// Such a list. T derives from its link.
template <class T, class Kind = T>
class chain {
  public:
    chain() = default;
    chain(const chain&) = delete;
    chain& operator=(const chain&) = delete;

    [[nodiscard]] bool empty() const noexcept { return head_.after_ == &head_; }
    /// Null where there is none.
    [[nodiscard]] T* first() const noexcept { return at(head_.after_); }
    [[nodiscard]] T* after(const T& each) const noexcept { return at(static_cast<const link&>(each).after_); }
    /// Takes it out of the list that it is in.
    void push_back(T& last) noexcept { static_cast<link&>(last).stand_before(head_); }
    void insert_before(T& next, T& what) noexcept { static_cast<link&>(what).stand_before(static_cast<link&>(next)); }
    static void remove(T& what) noexcept { static_cast<link&>(what).unlink(); }

    /// The first one for which `fits`; null where there is none.
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
