// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>

/// @file
/// A set of block numbers in O(1) memory: contiguous, wrapping around the end, or strided in groups.

namespace allfold {

/// `count` groups of `width` neighbouring blocks: the first group starts at `first`, each later one `stride` after its
/// predecessor. A negative stride counts downwards, one block at a time.
struct block_run {
    int first = 0;
    int count = 0;
    int stride = 1;
    int width = 1;

    [[nodiscard]] constexpr int size() const noexcept { return count * width; }
    [[nodiscard]] constexpr int operator[](int i) const noexcept {
        return width == 1 ? first + i * stride : first + i / width * stride + i % width;  // divisions are slow
    }
    [[nodiscard]] constexpr bool contains(int block) const noexcept {
        if (stride < 0) return block_run{(*this)[size() - 1], count, -stride, 1}.contains(block);
        if (block < first || count == 0) return false;
        const int group = stride == 0 ? 0 : std::min((block - first) / stride, count - 1);  // groups may overlap
        return block - first - group * stride < width;
    }
    /// Splits each block into `factor` blocks: 2, 3 times 4 are 8 ... 15.
    [[nodiscard]] constexpr block_run times(int factor) const noexcept {
        if (width == stride) return {first * factor, size() * factor, 1, 1};
        return {first * factor, count, stride * factor, width * factor};
    }
    friend constexpr bool operator==(const block_run&, const block_run&) = default;
};

/// An ordered set of blocks made of at most two runs. The sender and the receiver of a message name the same blocks in
/// the same order; where a block is in memory is the executor's business, so no algorithm permutes or rotates data.
class block_set {
  public:
    constexpr block_set() = default;
    constexpr block_set(block_run a, block_run b = {}) : runs_{a, b} {}

    [[nodiscard]] static constexpr block_set one(int block) noexcept { return block_run{block, 1, 1, 1}; }
    /// Blocks first, first + 1, ..., first + count - 1, counted modulo `blocks`.
    [[nodiscard]] static constexpr block_set wrapping(int first, int count, int blocks) noexcept {
        const int straight = std::min(count, blocks - first);
        return {block_run{first, straight, 1, 1}, block_run{0, count - straight, 1, 1}};
    }
    [[nodiscard]] static constexpr block_set all(int blocks) noexcept { return block_run{0, blocks, 1, 1}; }
    /// Blocks first, first - 1, ..., first - count + 1, counted modulo `blocks`.
    [[nodiscard]] static constexpr block_set downwards(int first, int count, int blocks) noexcept {
        const int straight = std::min(count, first + 1);
        return {block_run{first, straight, -1, 1}, block_run{blocks - 1, count - straight, -1, 1}};
    }

    /// Splits each block into `factor` blocks, in the same order.
    [[nodiscard]] constexpr block_set times(int factor) const noexcept {
        return {runs_[0].times(factor), runs_[1].times(factor)};
    }

    [[nodiscard]] constexpr int size() const noexcept {
        return runs_[0].count * runs_[0].width + runs_[1].count * runs_[1].width;
    }
    [[nodiscard]] constexpr bool empty() const noexcept { return size() == 0; }
    [[nodiscard]] constexpr int operator[](int i) const noexcept {
        const int head = runs_[0].size();
        return i < head ? runs_[0][i] : runs_[1][i - head];
    }
    [[nodiscard]] constexpr bool contains(int block) const noexcept {
        return runs_[0].contains(block) || runs_[1].contains(block);
    }
    /// Whether both name the same blocks in the same order, whatever runs they are made of.
    friend constexpr bool operator==(const block_set& a, const block_set& b) noexcept {
        if (a.size() != b.size()) return false;
        for (int i = 0; i < a.size(); ++i)
            if (a[i] != b[i]) return false;
        return true;
    }

  private:
    block_run runs_[2]{};
};

}  // namespace allfold
