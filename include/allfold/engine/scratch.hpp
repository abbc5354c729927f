// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <cstddef>

#include "allfold/engine/detail/memory_cache.hpp"
#include "allfold/engine/rows.hpp"

/// @file
/// Memory for data in transit: partial folds, and blocks for other ranks.

namespace allfold::detail {

/// Rows in memory of our own, column by column. Objects in it are made as copies of a sample, since they need not be
/// default-constructible: whoever writes there first has one to copy.
class scratch {
  public:
    [[nodiscard]] bool empty() const noexcept { return columns_.size() == 0; }
    [[nodiscard]] place first() noexcept { return {columns_.data(), 0}; }

    void allocate(const row_layout& rows, std::size_t count, const place& sample) {
        if (count == 0) return;
        if (!rows.functions->copyable) {
            objects_ = rows.functions->make(rows.address(sample, 0), count);
            columns_.resize(1);
            columns_[0] = objects_.data();
            return;
        }
        const std::size_t line = rows.alignment > 64 ? rows.alignment : 64;
        std::size_t bytes = 0;
        for (std::size_t c = 0; c < rows.columns(); ++c) bytes += align_up(count * rows.bytes[c], line);
        memory_ = cached_memory(bytes, line);
        std::byte* next = memory_.data();
        columns_.resize(rows.columns());
        for (std::size_t c = 0; c < rows.columns(); ++c) {
            columns_[c] = next;
            next += align_up(count * rows.bytes[c], line);
        }
    }

  private:
    small_array<std::byte*, 4> columns_;
    cached_memory memory_;
    object_array objects_;
};

}  // namespace allfold::detail
