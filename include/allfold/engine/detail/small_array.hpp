// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <span>

#include "allfold/data/detail/heap_array.hpp"

/// @file
/// An array that is stored inside its owner while it is short.

namespace allfold::detail {

/// Up to N elements inline, more on the heap. `resize` discards the old elements; until then, elements stay where they
/// are. Elements of types such as pointers are left uninitialised.
template <class T, std::size_t N>
class small_array {
  public:
    /// If there is no memory, the array is as before.
    void resize(std::size_t size) {
        if (size > N && size > heap_.size()) grow(size);
        size_ = size;
    }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] T* data() noexcept { return size_ > N ? heap_.data() : inside_; }
    [[nodiscard]] const T* data() const noexcept { return size_ > N ? heap_.data() : inside_; }
    [[nodiscard]] T& operator[](std::size_t i) noexcept { return data()[i]; }
    [[nodiscard]] const T& operator[](std::size_t i) const noexcept { return data()[i]; }
    [[nodiscard]] std::span<T> span() noexcept { return {data(), size_}; }
    [[nodiscard]] std::span<T> first(std::size_t count) noexcept { return {data(), count}; }
    void clear() noexcept {
        for (T& each : span()) each = T{};
    }

  private:
    [[gnu::cold]] void grow(std::size_t size) { heap_ = heap_array<T>(size); }

    T inside_[N];
    heap_array<T> heap_;
    std::size_t size_ = 0;
};

}  // namespace allfold::detail
