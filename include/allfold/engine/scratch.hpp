// SPDX-License-Identifier: BSL-1.0
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <vector>

#include "allfold/engine/kernel.hpp"

/// @file
/// Memory for partial folds.

namespace allfold::detail {

/// Rows of scratch memory in the shape of a kernel's rows; of objects, copies of a sample, since nobody promised that
/// they can be made from nothing.
template <class Kernel>
class scratch {
  public:
    using place_type = typename Kernel::place_type;

    [[nodiscard]] const place_type& place() const noexcept { return place_; }
    [[nodiscard]] bool empty() const noexcept { return place_[0] == nullptr; }

    void allocate(const Kernel& kernel, std::size_t rows, [[maybe_unused]] const place_type& sample) {
        if (rows == 0) return;
        if constexpr (Kernel::copyable) {
            std::size_t bytes = 0;
            for (std::size_t c = 0; c < Kernel::columns; ++c) bytes += column_bytes(kernel, rows, c);
            memory_.reset(static_cast<std::byte*>(::operator new(bytes, std::align_val_t{line})));
            std::byte* next = memory_.get();
            for (std::size_t c = 0; c < Kernel::columns; ++c) {
                place_[c] = next;
                next += column_bytes(kernel, rows, c);
            }
        } else {
            using object = typename Kernel::template column_type<0>;
            objects_.assign(rows, *reinterpret_cast<const object*>(sample[0]));
            place_[0] = reinterpret_cast<std::byte*>(objects_.data());
        }
    }

  private:
    static constexpr std::size_t line = Kernel::alignment > 64 ? Kernel::alignment : 64;

    [[nodiscard]] static std::size_t column_bytes(const Kernel& kernel, std::size_t rows, std::size_t column) noexcept {
        return align_up(rows * kernel.row_bytes(column), line);
    }

    struct release {
        void operator()(std::byte* p) const noexcept { ::operator delete(p, std::align_val_t{line}); }
    };
    struct nothing {};

    place_type place_{};
    std::unique_ptr<std::byte, release> memory_;
    [[no_unique_address]] std::conditional_t<Kernel::copyable, nothing,
                                             std::vector<typename Kernel::template column_type<0>>> objects_;
};

}  // namespace allfold::detail
