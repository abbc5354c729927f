// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

/// @file
/// A vector that allocates memory only for more than a few elements.

namespace allfold::detail {

/// What describes a call, such as the pieces of a list, is mostly short, and made anew for each call: allocating memory
/// would take as long as the call. (The engine's `small_array`, which it sizes at once, holds objects that cannot be
/// copied.)
template <class T, std::size_t Few>
class small_vector {
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

  public:
    using value_type = T;

    small_vector() noexcept {}
    small_vector(std::size_t size, const T& value) {
        reserve(size);
        while (size_ < size) push_back(value);
    }
    explicit small_vector(std::span<const T> all) { append(all); }
    small_vector(const small_vector& other) : small_vector() { append({other.first_, other.size_}); }
    small_vector(small_vector&& other) noexcept { take(other); }
    small_vector& operator=(const small_vector& other) {
        if (this == &other) return *this;
        size_ = 0;
        append({other.first_, other.size_});
        return *this;
    }
    small_vector& operator=(small_vector&& other) noexcept {
        if (this == &other) return *this;
        release();
        take(other);
        return *this;
    }
    ~small_vector() { release(); }

    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
    [[nodiscard]] T* data() noexcept { return first_; }
    [[nodiscard]] const T* data() const noexcept { return first_; }
    [[nodiscard]] T& operator[](std::size_t i) noexcept { return first_[i]; }
    [[nodiscard]] const T& operator[](std::size_t i) const noexcept { return first_[i]; }
    [[nodiscard]] T& back() noexcept { return first_[size_ - 1]; }
    [[nodiscard]] const T& back() const noexcept { return first_[size_ - 1]; }
    [[nodiscard]] T* begin() noexcept { return first_; }
    [[nodiscard]] T* end() noexcept { return first_ + size_; }
    [[nodiscard]] const T* begin() const noexcept { return first_; }
    [[nodiscard]] const T* end() const noexcept { return first_ + size_; }

    void reserve(std::size_t size) {
        if (size > room_) grow(size);
    }
    void push_back(const T& value) {
        if (size_ == room_) [[unlikely]]
            return push_back_growing(value);
        std::construct_at(first_ + size_, value);
        ++size_;
    }

  private:
    [[nodiscard]] bool is_on_heap() const noexcept { return first_ != inside; }
    void append(std::span<const T> more) {
        reserve(size_ + more.size());
        std::uninitialized_copy_n(more.data(), more.size(), first_ + size_);
        size_ += more.size();
    }
    void take(small_vector& other) noexcept {
        if (other.is_on_heap()) {
            first_ = std::exchange(other.first_, other.inside);
            room_ = std::exchange(other.room_, Few);
        } else {
            first_ = inside;
            room_ = Few;
            std::uninitialized_copy_n(other.first_, other.size_, first_);
        }
        size_ = std::exchange(other.size_, 0);
    }
    void release() noexcept {
        if (is_on_heap()) std::allocator<T>().deallocate(first_, room_);
    }
    [[gnu::noinline]] void push_back_growing(T value) {  // a copy, since it may be an element
        grow(2 * room_);
        push_back(value);
    }
    [[gnu::noinline]] void grow(std::size_t room) {
        T* const more = std::allocator<T>().allocate(room);
        std::uninitialized_copy_n(first_, size_, more);
        release();
        first_ = more;
        room_ = room;
    }

    union {
        T inside[Few];  // not initialised
    };
    T* first_ = inside;
    std::size_t size_ = 0, room_ = Few;
};

}  // namespace allfold::detail
