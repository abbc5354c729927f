// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

/// @file
/// An array for proofs at compile time.

namespace allfold::detail {

/// An array whose size is fixed on construction. In a constant expression `std::vector` would do as much, but not in
/// the debug mode of libstdc++ 12.
template <class T>
class constexpr_array {
  public:
    constexpr constexpr_array() noexcept = default;
    /// Elements are value-initialised.
    constexpr explicit constexpr_array(std::size_t size) {
        allocate(size);
        for (; size_ < size; ++size_) std::construct_at(first_ + size_);
    }
    /// Element i is `make(i)`.
    template <class Make>
    constexpr constexpr_array(std::size_t size, const Make& make) {
        allocate(size);
        for (; size_ < size; ++size_) std::construct_at(first_ + size_, make(size_));
    }
    constexpr constexpr_array(const constexpr_array& other)
        : constexpr_array(other.size_, [&other](std::size_t i) -> const T& { return other.first_[i]; }) {}
    constexpr constexpr_array(constexpr_array&& other) noexcept { swap(other); }
    constexpr constexpr_array& operator=(constexpr_array other) noexcept {
        swap(other);
        return *this;
    }
    constexpr ~constexpr_array() {
        for (std::size_t i = 0; i < size_; ++i) std::destroy_at(first_ + i);
        if (capacity_ > 0) std::allocator<T>().deallocate(first_, capacity_);
    }

    [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }
    [[nodiscard]] constexpr bool empty() const noexcept { return size_ == 0; }
    [[nodiscard]] constexpr T* data() noexcept { return first_; }
    [[nodiscard]] constexpr const T* data() const noexcept { return first_; }
    [[nodiscard]] constexpr T& operator[](std::size_t i) noexcept { return first_[i]; }
    [[nodiscard]] constexpr const T& operator[](std::size_t i) const noexcept { return first_[i]; }
    [[nodiscard]] constexpr const T* begin() const noexcept { return first_; }
    [[nodiscard]] constexpr const T* end() const noexcept { return first_ + size_; }

  private:
    constexpr void allocate(std::size_t size) {
        if (size > 0) first_ = std::allocator<T>().allocate(size);
        capacity_ = size;
    }
    constexpr void swap(constexpr_array& other) noexcept {
        std::swap(first_, other.first_);
        std::swap(size_, other.size_);
        std::swap(capacity_, other.capacity_);
    }

    T* first_ = nullptr;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;  // greater than the size only while elements are made
};

}  // namespace allfold::detail
