// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <limits>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "allfold/data/detail/small_vector.hpp"
#include "allfold/error.hpp"

/// @file
/// How n elements are divided into consecutive blocks, one per rank.

namespace allfold {

namespace detail {
[[noreturn, gnu::cold]] inline void reject_size(std::size_t block, long long size) {
    throw error(errc::bad_partition, text({"partition: block ", block, " has ", size, " elements"}));
}
[[noreturn, gnu::cold]] inline void reject_shard(int block, std::size_t elements, std::size_t room) {
    throw error(errc::bad_partition,
                text({"partition: block ", block, " has ", elements, " elements, but its shard has room for ", room}));
}
}  // namespace detail

/// Consecutive blocks that together cover [0, total): block b is the `extent(b)` elements starting at `offset(b)`.
/// Blocks may be empty everywhere.
///
///     const auto blocks = allfold::partition::even(10, 4);  // or ceil, or sizes({3, 3, 2, 2})
///     blocks.offset(2);                                     // 6
///     blocks.extent(2);                                     // 2
class partition {
  public:
    /// As even as possible: the first total % blocks blocks have one element more.
    [[nodiscard]] static partition even(std::size_t total, int blocks) { return even_grains(total, blocks, 1); }
    /// Like `even`, but in whole grains of `grain` elements; only the last non-empty block may end within a grain.
    /// @throws error (bad_partition) if grains are empty.
    [[nodiscard]] static partition even_grains(std::size_t total, int blocks, std::size_t grain) {
        if (grain == 0) throw error(errc::bad_partition, "partition: the grain must not be 0");
        if (blocks <= 1) return partition(total, blocks, total, 1, 0);
        const std::size_t count = static_cast<std::size_t>(blocks),
                          grains = grain == 1 ? total : total / grain + (total % grain != 0 ? 1 : 0);
        partition made(total, blocks, grain, grains / count, grains % count);
        if (total > most - grain) made.list_offsets();
        return made;
    }
    /// Blocks of ceil(total / blocks) elements until none are left, as in fully sharded data parallelism.
    [[nodiscard]] static partition ceil(std::size_t total, int blocks) {
        if (blocks <= 1) return even(total, blocks);
        const auto count = static_cast<std::size_t>(blocks);
        partition made(total, blocks, 1, total / count + (total % count != 0 ? 1 : 0), 0);
        if (total > most - count) made.list_offsets();
        return made;
    }
    /// Blocks of the given sizes, which may be any range of integers.
    /// @throws error (bad_partition) for a negative size, or if the sum overflows `std::size_t`.
    template <class Sizes>
    [[nodiscard]] static partition sizes(const Sizes& sizes) {
        partition p(0, 0, 1, 0, 0);
        if constexpr (std::ranges::sized_range<const Sizes>) p.offsets_.reserve(std::ranges::size(sizes) + 1);
        p.offsets_.push_back(0);
        for (const auto& size : sizes) {
            if constexpr (std::is_signed_v<std::remove_cvref_t<decltype(size)>>)
                if (size < 0) detail::reject_size(p.offsets_.size() - 1, static_cast<long long>(size));
            p.add(static_cast<std::size_t>(size));
        }
        p.total_ = p.offsets_.back();
        p.blocks_ = static_cast<int>(p.offsets_.size()) - 1;
        return p;
    }
    [[nodiscard]] static partition sizes(std::initializer_list<std::size_t> list) {
        return sizes<std::initializer_list<std::size_t>>(list);
    }

    /// Whether two partitions have the same boundaries, however they were specified.
    friend bool operator==(const partition& a, const partition& b) noexcept {
        if (a.blocks_ != b.blocks_ || a.total_ != b.total_) return false;
        for (int i = 1; i < a.blocks_; ++i)
            if (a.offset(i) != b.offset(i)) return false;
        return true;
    }
    /// Whether all blocks have the same length.
    [[nodiscard]] bool is_uniform() const noexcept {
        for (int b = 0; b < blocks_; ++b)
            if (extent(b) != largest_) return false;
        return true;
    }

    [[nodiscard]] int blocks() const noexcept { return blocks_; }
    [[nodiscard]] std::size_t total() const noexcept { return total_; }
    /// The index of a block's first element; offset(blocks()) is total().
    [[nodiscard]] std::size_t offset(int block) const noexcept {
        const auto b = static_cast<std::size_t>(block);
        if (!offsets_.empty()) return offsets_[b];
        return std::min(total_, grain_ * (b * quotient_ + std::min(b, remainder_)));
    }
    /// The number of elements in a block.
    [[nodiscard]] std::size_t extent(int block) const noexcept {
        const bounds of = bounds_of(block);
        return of.end - of.begin;
    }
    /// The elements of a block are [begin, end).
    struct bounds {
        std::size_t begin, end;
    };
    [[nodiscard]] bounds bounds_of(int block) const noexcept {
        const auto b = static_cast<std::size_t>(block);
        if (!offsets_.empty()) return {offsets_[b], offsets_[b + 1]};
        const std::size_t begin = grain_ * (b * quotient_ + std::min(b, remainder_));
        return {std::min(total_, begin), std::min(total_, begin + grain_ * (quotient_ + (b < remainder_ ? 1 : 0)))};
    }
    /// The number of elements in the largest block.
    [[nodiscard]] std::size_t largest() const noexcept { return largest_; }
    /// The part of a shard that its block occupies, without the padding that follows if, say, all shards are padded to
    /// the length of the largest block.
    /// @throws error (bad_partition) if the shard is too short.
    template <class Shard>
    [[nodiscard]] auto unpadded(Shard& shard, int block) const {
        const std::span all(shard);
        if (all.size() < extent(block)) detail::reject_shard(block, extent(block), all.size());
        return all.first(extent(block));
    }

  private:
    /// Blocks of `quotient` grains each, the first `remainder` of them of one more.
    partition(std::size_t total, int blocks, std::size_t grain, std::size_t quotient, std::size_t remainder)
        : total_(total),
          blocks_(blocks),
          grain_(grain),
          quotient_(quotient),
          remainder_(remainder),
          largest_(std::min(total, grain * (quotient + (remainder != 0 ? 1 : 0)))) {}

    /// For totals so large that the end of the last block would overflow if it were not cut off there.
    void list_offsets() {
        offsets_.push_back(0);
        for (std::size_t b = 0; b < static_cast<std::size_t>(blocks_); ++b)
            add(std::min(total_ - offsets_.back(), grain_ * (quotient_ + (b < remainder_ ? 1 : 0))));
    }
    void add(std::size_t size) {
        const std::size_t end = offsets_.back() + size;
        if (end < size)
            throw error(errc::bad_partition, detail::text({"partition: the sizes of blocks 0 to ", offsets_.size() - 1,
                                                           " add up to a total that overflows std::size_t"}));
        offsets_.push_back(end);
        largest_ = std::max(largest_, size);
    }

    static constexpr std::size_t most = std::numeric_limits<std::size_t>::max();

    std::size_t total_ = 0;
    int blocks_ = 0;
    std::size_t grain_ = 1;
    std::size_t quotient_ = 0;
    std::size_t remainder_ = 0;
    std::size_t largest_ = 0;
    detail::small_vector<std::size_t, 9> offsets_;  // if made from sizes, with total() at the end; otherwise empty
};

}  // namespace allfold
