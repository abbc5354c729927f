// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace allfold::detail {

/// A pool of used objects, which are reused as they are.
template <class T>
class object_pool {
  public:
    [[nodiscard]] std::unique_ptr<T> take() {
        if (kept_.empty()) return std::make_unique<T>();
        std::unique_ptr<T> found = std::move(kept_.back());
        kept_.pop_back();
        return found;
    }
    void give(std::unique_ptr<T> finished) {
        if (kept_.size() < most) kept_.push_back(std::move(finished));
    }

  private:
    static constexpr std::size_t most = 64;
    std::vector<std::unique_ptr<T>> kept_;
};

}  // namespace allfold::detail
