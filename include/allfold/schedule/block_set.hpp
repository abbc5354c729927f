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
/// (Proofs at compile time spend much of their time here: g++ evaluates two members three times as fast as an array of
/// two, and an assignment to a member three times as fast as a conversion.)
class block_set {
  public:
    constexpr block_set() = default;
    constexpr block_set(block_run head, block_run tail = {}) : head_(head), tail_(tail) {}

    [[nodiscard]] static constexpr block_set one(int block) noexcept {
        block_set single;
        single.head_.first = block;
        single.head_.count = 1;
        return single;
    }
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
        return {head_.times(factor), tail_.times(factor)};
    }

    [[nodiscard]] constexpr int size() const noexcept { return head_.count * head_.width + tail_.count * tail_.width; }
    [[nodiscard]] constexpr bool empty() const noexcept { return size() == 0; }
    [[nodiscard]] constexpr int operator[](int i) const noexcept {
        const int in_head = head_.count * head_.width;
        return i < in_head ? head_[i] : tail_[i - in_head];
    }
    [[nodiscard]] constexpr bool contains(int block) const noexcept {
        return head_.contains(block) || tail_.contains(block);
    }
    /// Whether both name the same blocks in the same order, whatever runs they are made of.
    friend constexpr bool operator==(const block_set& a, const block_set& b) noexcept {
        if (a.size() != b.size()) return false;
        for (int i = 0; i < a.size(); ++i)
            if (a[i] != b[i]) return false;
        return true;
    }

  private:
    block_run head_{};
    block_run tail_{};
};

}  // namespace allfold
