// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <limits>
#include <new>
#include <utility>

/// @file
/// An array on the heap.

namespace allfold::detail {

/// An array whose size is fixed on construction; elements of trivial types are left uninitialised. Moving the array
/// does not move its elements. This is all that the library needs of `std::unique_ptr<T[]>` and `std::vector`: with
/// those, and the lists and maps that it replaced elsewhere, programs took a sixth longer to compile.
template <class T>
class heap_array {
  public:
    heap_array() = default;
    explicit heap_array(std::size_t size) : first_(allocate(size)), size_(size) {}
    heap_array(heap_array&& other) noexcept { swap(other); }
    heap_array& operator=(heap_array&& other) noexcept {
        heap_array moved(std::move(other));
        swap(moved);
        return *this;
    }
    ~heap_array() { delete[] first_; }

    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] T* data() const noexcept { return first_; }
    [[nodiscard]] T& operator[](std::size_t i) const noexcept { return first_[i]; }
    [[nodiscard]] T* begin() const noexcept { return first_; }
    [[nodiscard]] T* end() const noexcept { return first_ + size_; }

  private:
    /// The check is also for g++, which otherwise warns, in programs optimised as a whole (-flto), that a number of
    /// ranks might be negative.
    [[nodiscard]] static T* allocate(std::size_t size) {
        if (size > std::numeric_limits<std::ptrdiff_t>::max() / sizeof(T)) throw std::bad_array_new_length();
        return new T[size];
    }
    void swap(heap_array& other) noexcept {
        std::swap(first_, other.first_);
        std::swap(size_, other.size_);
    }

    T* first_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace allfold::detail
