// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <utility>

#include "allfold/engine/operation.hpp"

/// @file
/// The copies made by `mode::buffered`.

namespace allfold::detail {

/// The copies that a rank keeps until they have been sent, and how many bytes of them it may keep.
class send_buffer {
  public:
    class copy {
      public:
        explicit copy(send_buffer& of, std::size_t bytes) noexcept : of_(of), bytes_(bytes) { of_.used_ += bytes_; }
        copy(const copy&) = delete;
        copy& operator=(const copy&) = delete;
        virtual ~copy() { of_.used_ -= bytes_; }
        /// The send of this copy.
        [[nodiscard]] virtual pending& work() noexcept = 0;

      private:
        send_buffer& of_;
        std::size_t bytes_;
    };

    [[nodiscard]] bool is_attached() const noexcept { return bytes_ != 0; }
    void attach(std::size_t bytes) noexcept { bytes_ = bytes; }
    std::size_t detach() noexcept { return std::exchange(bytes_, 0); }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
    [[nodiscard]] std::size_t free_bytes() const noexcept { return bytes_ - std::min(bytes_, used_); }
    [[nodiscard]] bool has_room(std::size_t bytes) const noexcept { return used_ + bytes <= bytes_; }

    void keep(std::unique_ptr<copy> sent) {
        if (kept_.size() >= max_kept_) {  // rarely enough that keeping one has constant amortised cost
            forget_sent();
            max_kept_ = std::max(few, 2 * kept_.size());
        }
        kept_.push_back(std::move(sent));
    }
    void forget_sent() {
        std::erase_if(kept_, [](const auto& each) { return each->work().done(); });
    }
    [[nodiscard]] bool is_empty() const noexcept { return kept_.empty(); }
    /// Removes and returns the first copy; null if there is none.
    [[nodiscard]] std::unique_ptr<copy> take_first() {
        if (is_empty()) return nullptr;
        std::unique_ptr<copy> first = std::move(kept_.front());
        kept_.pop_front();
        return first;
    }

  private:
    static constexpr std::size_t few = 64;

    std::size_t bytes_ = 0, used_ = 0;
    std::size_t max_kept_ = few;
    std::deque<std::unique_ptr<copy>> kept_;
};

}  // namespace allfold::detail
