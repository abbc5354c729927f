// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace test {

/// Elements between two margins that must not be written.
template <class T>
class guarded {
  public:
    guarded(std::span<const T> elements, T margin) : margin_(std::move(margin)), memory_(width, margin_) {
        memory_.insert(memory_.end(), elements.begin(), elements.end());
        memory_.insert(memory_.end(), width, margin_);
    }
    /// `size` elements that look like the margin.
    guarded(std::size_t size, T margin) : guarded(std::vector<T>(size, margin), margin) {}

    [[nodiscard]] std::span<T> span() noexcept { return std::span(memory_).subspan(width, memory_.size() - 2 * width); }
    [[nodiscard]] std::span<const T> constant() noexcept { return span(); }

    [[nodiscard]] bool margins_are_untouched() const {
        const auto is_margin = [this](const T& x) { return x == margin_; };
        return std::all_of(memory_.begin(), memory_.begin() + width, is_margin) &&
               std::all_of(memory_.end() - width, memory_.end(), is_margin);
    }

  private:
    static constexpr std::ptrdiff_t width = 3;
    T margin_;
    std::vector<T> memory_;
};

}  // namespace test
