// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "allfold/engine/detail/leak.hpp"
#include "allfold/engine/operands.hpp"
#include "allfold/engine/scratch.hpp"
#include "allfold/schedule/step.hpp"

/// @file
/// Where the blocks of one window lie, in the caller's memory and in our own.

namespace allfold::detail {

/// In each slot, blocks have the rows of the partition that belongs to the slot; a window has some rows of each.
/// Scratch is allocated when it is first written.
template <communicator Comm>
class window_memory {
  public:
    using context = call<Comm>;

    void begin(const context& all, std::size_t window) {
        window_ = window;
        scratch_blocks_ = all.schedule.scratch();
        is_whole_ = all.memory.blocks->blocks() == 1 && scratch_blocks_.copies == 1 &&
                    all.memory.result_blocks == all.memory.blocks;
        if (is_whole_) whole_ = rows_of(all, *all.memory.blocks, 0);
        if (all.memory.stage_input) stage(all);
    }
    void leak() noexcept {
        detail::leak(scratch_);
        detail::leak(staged_);
    }

    /// The rows of a block in this window.
    struct rows_in_window {
        std::size_t first;
        std::size_t count;
    };
    [[nodiscard]] rows_in_window rows_of(const context& all, slot where, int block) const noexcept {
        if (is_whole_) return whole_;
        const partition& blocks = blocks_of(all, where);
        if (is_scratch(where)) block = scratch_blocks_.copied(block);
        return rows_of(all, blocks, block);
    }
    /// Where a block lies that exists already.
    [[nodiscard]] place locate(const context& all, slot where, int block) {
        return locate(all, where, block, rows_of(all, where, block));
    }
    [[nodiscard]] place locate(const context& all, slot where, int block, const rows_in_window& rows) {
        const operands& memory = all.memory;
        const auto in_window = static_cast<std::size_t>(block) * memory.window_rows;
        switch (where) {
            case slot::input:
                if (memory.stage_input) return staged_.first() + in_window;
                return memory.input.first + (rows.first - memory.input.first_row);
            case slot::result: return memory.result.first + (rows.first - memory.result.first_row);
            case slot::scratch_a: return scratch_[0].first() + in_window;
            case slot::scratch_b: return scratch_[1].first() + in_window;
        }
        return {};
    }
    /// Where a block will lie: `sample` is a row of what is written there.
    [[nodiscard]] place locate_to_write(const context& all, slot where, int block, const rows_in_window& rows,
                                        const place& sample) {
        if (is_scratch(where)) {
            scratch& memory = scratch_[where == slot::scratch_a ? 0 : 1];
            if (memory.empty()) allocate(all, memory, scratch_blocks_, sample);
        }
        return locate(all, where, block, rows);
    }

  private:
    [[nodiscard]] static const partition& blocks_of(const context& all, slot where) noexcept {
        return where == slot::result ? *all.memory.result_blocks : *all.memory.blocks;
    }
    [[nodiscard]] rows_in_window rows_of(const context& all, const partition& blocks, int block) const noexcept {
        const partition::bounds whole = blocks.bounds_of(block);
        const std::size_t begin = whole.begin + window_ * all.memory.window_rows;
        return {begin, whole.end <= begin ? 0 : std::min(all.memory.window_rows, whole.end - begin)};
    }
    void allocate(const context& all, scratch& memory, const scratch_blocks& made, const place& sample) const {
        const auto blocks = static_cast<std::size_t>(made.count(all.memory.blocks->blocks()));
        const std::size_t rows = all.memory.window_rows, rows_of_last = std::min(rows, all.memory.blocks->largest());
        const bool is_empty = blocks == 0 || rows_of_last == 0;
        memory.allocate(all.rows, is_empty ? 0 : (blocks - 1) * rows + rows_of_last, sample);
    }
    void stage(const context& all) {
        const operand& input = all.memory.input;
        for (int b = 0; b < all.memory.blocks->blocks(); ++b) {
            const rows_in_window rows = rows_of(all, slot::input, b);
            if (rows.count == 0 || !all.goal.input(all.schedule.where(), b).exists()) continue;
            const auto in_window = static_cast<std::size_t>(b) * all.memory.window_rows;
            const place first = input.first + (rows.first - input.first_row);
            if (staged_.empty()) allocate(all, staged_, {}, first);  // from a row that exists
            all.rows.copy(first, staged_.first() + in_window, rows.count);
        }
    }

    std::size_t window_ = 0;
    bool is_whole_ = false;  // there is only one block, with these rows
    rows_in_window whole_{};
    scratch_blocks scratch_blocks_{};
    std::array<scratch, 2> scratch_;
    scratch staged_;
};

}  // namespace allfold::detail
